# Metal: the executor (object library `metal`) and the library of kernels, ferrule.metallib, beside the module.
#
# On macOS both are real; nobody has run this branch yet. With FERRULE_METAL_HOST the same sources are built against the
# stand-in of tests/metal_host, and ferrule.metallib is a shared object of translated kernels. Else there is no Metal.
if(FERRULE_METAL_HOST)
    if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
        message(FATAL_ERROR "FERRULE_METAL_HOST needs clang 19 or later: -DCMAKE_CXX_COMPILER=clang++-19")
    endif()
    set(CMAKE_OBJCXX_COMPILER ${CMAKE_CXX_COMPILER})
endif()

if(APPLE OR FERRULE_METAL_HOST)
    enable_language(OBJCXX)
    set(CMAKE_OBJCXX_STANDARD 20)
    set(CMAKE_OBJCXX_STANDARD_REQUIRED ON)
    set(CMAKE_OBJCXX_EXTENSIONS OFF)
    set(CMAKE_OBJCXX_VISIBILITY_PRESET hidden)
    add_library(metal OBJECT csrc/executors/metal.mm csrc/executors/metal_program.mm csrc/executors/metal_residency.mm
                             csrc/executors/metal_step.mm)
    target_compile_definitions(metal PRIVATE FERRULE_METAL_HOST=$<BOOL:${FERRULE_METAL_HOST}>)
else()
    add_library(metal OBJECT csrc/executors/no_metal.cpp)
endif()
target_compile_options(metal PRIVATE ${WARNINGS})

if(FERRULE_METAL_HOST)
    add_subdirectory(tests/metal_host)
    add_subdirectory(tests/metal_host/framework)
    target_link_libraries(metal PUBLIC metal_framework)
    set(CMAKE_INSTALL_RPATH "$ORIGIN")
    set_target_properties(metal_host metal_framework PROPERTIES INSTALL_RPATH "$ORIGIN")
    install(TARGETS metal_host metal_framework LIBRARY DESTINATION ferrule)
    install(PROGRAMS $<TARGET_FILE:kernels> DESTINATION ferrule RENAME ferrule.metallib)
    install(PROGRAMS $<TARGET_FILE:kernels_checked> DESTINATION ferrule RENAME ferrule.metallib.checked)
elseif(APPLE)
    target_compile_options(metal PRIVATE -fno-objc-arc)
    # Without Core Graphics, a program that shows nothing gets no default device.
    target_link_libraries(metal PUBLIC "-framework CoreGraphics" "-framework Foundation" "-framework Metal")

    # Without fast mathematics, for results are compared with those of other devices; kernels ask for it where they want.
    file(GLOB KERNELS CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/metal/*.metal)
    file(GLOB_RECURSE KERNEL_HEADERS CONFIGURE_DEPENDS
        ${CMAKE_CURRENT_SOURCE_DIR}/metal/*.h ${CMAKE_CURRENT_SOURCE_DIR}/csrc/params/*.h
        ${CMAKE_CURRENT_SOURCE_DIR}/csrc/formats/*.h)
    # Metal 3.1 is C++14; its compiler takes nested namespaces and the like as extensions.
    set(METAL_COMPILER xcrun -sdk macosx metal -std=metal3.1 -mmacosx-version-min=14.0 -O2 -fno-fast-math
        -Wno-c++17-extensions)
    foreach(source IN LISTS KERNELS)
        cmake_path(GET source STEM stem)
        set(air ${CMAKE_CURRENT_BINARY_DIR}/${stem}.air)
        add_custom_command(OUTPUT ${air} COMMAND ${METAL_COMPILER} -c ${source} -o ${air}
            DEPENDS ${source} ${KERNEL_HEADERS} ${CMAKE_CURRENT_SOURCE_DIR}/csrc/constant.h VERBATIM)
        list(APPEND AIRS ${air})
    endforeach()
    set(METALLIB ${CMAKE_CURRENT_BINARY_DIR}/ferrule.metallib)
    add_custom_command(OUTPUT ${METALLIB} COMMAND xcrun -sdk macosx metallib ${AIRS} -o ${METALLIB} DEPENDS ${AIRS}
        VERBATIM)
    add_custom_target(metallib ALL DEPENDS ${METALLIB})
    install(FILES ${METALLIB} DESTINATION ferrule)
endif()
