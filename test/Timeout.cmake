# What a test may take. Every TIMEOUT of the tree goes through here, so that slow
# builds and slow machines need one number.
if(SHARDWRIGHT_SANITIZE)
  set(default_factor 4)
else()
  set(default_factor 1)
endif()
set(SHARDWRIGHT_TIMEOUT_FACTOR ${default_factor} CACHE STRING
    "Tests may take this many times as long (an integer)")

# sw_test_timeout(SECONDS test ...): seconds on a quiet machine, unsanitized.
function(sw_test_timeout seconds)
  math(EXPR seconds "${seconds} * ${SHARDWRIGHT_TIMEOUT_FACTOR}")
  set_tests_properties(${ARGN} PROPERTIES TIMEOUT ${seconds})
endfunction()
