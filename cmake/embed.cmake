# SPDX-License-Identifier: Apache-2.0
# cmake -DOUT=FILE -DIN=FILE;FILE -P embed.cmake: files as arrays of bytes in C, each ended by a zero.
set(text "/* Made by cmake/embed.cmake. */\n")
foreach(file ${IN})
    get_filename_component(name ${file} NAME)
    string(MAKE_C_IDENTIFIER ${name} name)
    file(READ ${file} bytes HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
    string(APPEND text "static const unsigned char ${name}[] = {${bytes}0};\n")
endforeach()
file(WRITE ${OUT} "${text}")
