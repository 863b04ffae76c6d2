# SPDX-License-Identifier: Apache-2.0
# Completions and manual pages, written by the command itself: cmake -DSTOKER=BINARY -DOUT=FOLDER -P share.cmake
function(write file)
    execute_process(COMMAND ${STOKER} ${ARGN} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
    file(WRITE ${OUT}/${file} "${text}")
endfunction()

file(REMOVE_RECURSE ${OUT})
write(bash-completion/completions/stoker completion bash)
write(zsh/site-functions/_stoker completion zsh)
write(fish/vendor_completions.d/stoker.fish completion fish)
write(man/man1/stoker.1 help --man)
execute_process(COMMAND ${STOKER} --help OUTPUT_VARIABLE help COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "\n  [a-z]+  " commands "${help}")
foreach(command ${commands})
    string(STRIP "${command}" command)
    write(man/man1/stoker-${command}.1 help --man ${command})
endforeach()
