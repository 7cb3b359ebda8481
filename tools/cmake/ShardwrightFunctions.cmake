# Plans as parts of a build. Everything is rebuilt when a file that it was made
# from changes (config, plan, cluster, profile, the tool), and not otherwise.

# Sets `result` to the absolute path of the file or folder `name`.
function(_shardwright_path result name)
  get_filename_component(path "${name}" ABSOLUTE
                         BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
  set(${result} "${path}" PARENT_SCOPE)
endfunction()

# The same for a cluster or profile, which may be the name of a shipped one: then
# `result` is `name`. Files are added to the list `inputs`: the build may make them.
function(_shardwright_named result name)
  _shardwright_path(path "${name}")
  if(name MATCHES "[/.]" OR (EXISTS "${path}" AND NOT IS_DIRECTORY "${path}"))
    set(${result} "${path}" PARENT_SCOPE)
    set(inputs ${inputs} "${path}" PARENT_SCOPE)
  else()
    set(${result} "${name}" PARENT_SCOPE)
  endif()
endfunction()

function(_shardwright_require function)
  foreach(key ${ARGN})
    if(NOT ARG_${key})
      message(FATAL_ERROR "${function}: expected ${key}, but got none")
    endif()
  endforeach()
endfunction()

function(_shardwright_refuse_unparsed function)
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR
            "${function}: unknown arguments: ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  if(ARG_KEYWORDS_MISSING_VALUES)
    message(FATAL_ERROR
            "${function}: expected a value after: ${ARG_KEYWORDS_MISSING_VALUES}")
  endif()
endfunction()

# shardwright_add_executable(NAME MODEL <config.json or folder>
#                            PLAN <plan.json> | CLUSTER <name or file>
#                            [TARGET host|cuda] [CPU <name>] [OPTIONS <flag>...])
#
# Adds the executable NAME: MODEL compiled under PLAN, or under the fastest plan
# that is found on CLUSTER, which is then NAME.plan.json in the build folder.
# OPTIONS are further flags of `shardwright compile`: --gpus 8 --fix tp=2. NAME
# is a target like any other: install it, run it in add_test. The project needs
# CXX as a language, to link with.
function(shardwright_add_executable name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "MODEL;PLAN;CLUSTER;TARGET;CPU"
                        "OPTIONS")
  _shardwright_refuse_unparsed("shardwright_add_executable(${name})")
  _shardwright_require("shardwright_add_executable(${name})" MODEL)
  if((ARG_PLAN AND ARG_CLUSTER) OR NOT (ARG_PLAN OR ARG_CLUSTER))
    message(FATAL_ERROR "shardwright_add_executable(${name}): expected either "
                        "PLAN, or CLUSTER to make a plan for")
  endif()
  if(NOT CMAKE_CXX_COMPILER_LOADED)
    message(FATAL_ERROR "shardwright_add_executable(${name}): expected CXX among "
                        "the languages of the project, to link with")
  endif()

  _shardwright_path(model "${ARG_MODEL}")
  set(object "${CMAKE_CURRENT_BINARY_DIR}/${name}.shardwright.o")
  set(made "${CMAKE_CURRENT_BINARY_DIR}/${name}.plan.json")
  set(flags ${ARG_OPTIONS})
  set(inputs "")
  if(ARG_PLAN)
    _shardwright_path(plan "${ARG_PLAN}")
    list(APPEND inputs "${plan}")
    list(APPEND flags --plan "${plan}")
    set(byproducts "")
  else()
    _shardwright_named(cluster "${ARG_CLUSTER}")
    list(APPEND flags --cluster "${cluster}" --plan-output "${made}")
    set(byproducts BYPRODUCTS "${made}")
  endif()
  if(ARG_TARGET)
    list(APPEND flags --target "${ARG_TARGET}")
  endif()
  if(ARG_CPU)
    list(APPEND flags --cpu "${ARG_CPU}")
  endif()
  add_custom_command(
    OUTPUT "${object}" ${byproducts}
    COMMAND Shardwright::shardwright compile "${model}" ${flags}
            --emit obj -o "${object}" --depfile "${object}.d"
    DEPENDS Shardwright::shardwright ${inputs}
    DEPFILE "${object}.d"
    COMMENT "Compiling the model of ${name}"
    VERBATIM)
  set_source_files_properties("${object}" PROPERTIES
    EXTERNAL_OBJECT TRUE GENERATED TRUE)
  add_executable(${name} "${object}")
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(${name} PRIVATE Shardwright::runtime)
endfunction()

# shardwright_check_plan(NAME MODEL <config.json or folder> PLAN <plan.json>
#                        CLUSTER <name or file> [EXPECT <report.json>]
#                        [TOLERANCE <percent>] [PROFILE <name or file>]
#                        [OPTIONS <flag>...])
#
# Adds the target NAME to the default build. It fails when PLAN no longer fits
# MODEL and CLUSTER, or when its step time or memory has moved from what EXPECT
# says by more than TOLERANCE percent (default 1). What is predicted now is
# NAME.report.json in the build folder. Build NAME-accept to write EXPECT, at
# first and when a change is wanted.
function(shardwright_check_plan name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG ""
                        "MODEL;PLAN;CLUSTER;EXPECT;TOLERANCE;PROFILE" "OPTIONS")
  _shardwright_refuse_unparsed("shardwright_check_plan(${name})")
  _shardwright_require("shardwright_check_plan(${name})" MODEL PLAN CLUSTER)
  if(DEFINED ARG_TOLERANCE AND NOT ARG_EXPECT)
    message(FATAL_ERROR "shardwright_check_plan(${name}): expected EXPECT with "
                        "TOLERANCE, but got none")
  endif()

  _shardwright_path(model "${ARG_MODEL}")
  _shardwright_path(plan "${ARG_PLAN}")
  set(inputs "${plan}")
  _shardwright_named(cluster "${ARG_CLUSTER}")
  set(predict Shardwright::shardwright predict "${model}" --plan "${plan}"
              --cluster "${cluster}" ${ARG_OPTIONS})
  if(ARG_PROFILE)
    _shardwright_named(profile "${ARG_PROFILE}")
    list(APPEND predict --profile "${profile}")
  endif()
  set(checks --require-fit)
  if(ARG_EXPECT)
    _shardwright_path(expected "${ARG_EXPECT}")
    list(APPEND checks --expect "${expected}")
    if(DEFINED ARG_TOLERANCE)
      list(APPEND checks --tolerance "${ARG_TOLERANCE}")
    endif()
    add_custom_target(${name}-accept
      COMMAND ${predict} --require-fit --report "${expected}"
      COMMENT "Accepting the prediction of ${name}"
      VERBATIM)
  endif()
  set(report "${CMAKE_CURRENT_BINARY_DIR}/${name}.report.json")
  add_custom_command(
    OUTPUT "${report}"
    COMMAND ${predict} ${checks} --report "${report}" --depfile "${report}.d"
    DEPENDS Shardwright::shardwright ${inputs}
    DEPFILE "${report}.d"
    COMMENT "Checking the plan of ${name}"
    VERBATIM)
  add_custom_target(${name} ALL DEPENDS "${report}")
endfunction()
