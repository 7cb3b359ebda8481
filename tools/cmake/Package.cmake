# The Debian package: `cpack -G DEB` in a built tree.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME shardwright)
set(CPACK_PACKAGE_CONTACT "Shardwright developers <shardwright@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "compiler for parallelism plans")
set(CPACK_PACKAGE_DESCRIPTION
"Finds the fastest way to train a model on a cluster of GPUs, says what a step
takes in time and memory before anything runs, and compiles the plan into a
program that trains.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
# Libraries of the programs are found by dpkg-shlibdeps, but for libLLVM, which
# it sees through a link of LLVM's development files. `compile` also links.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS
    "libllvm${LLVM_VERSION_MAJOR}, g++ | clang, libopenblas-dev")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "openmpi-bin, lld-22")
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE
    GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
include(CPack)
