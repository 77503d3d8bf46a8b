"""The project of an exported program: a main program, the weights' assembler file, CMakeLists."""

from __future__ import annotations

from explorer.portable.c_text import comment, filled
from explorer.portable.portable_program import PortableProgram
from explorer.runtime.workers.aligned_memory import ALIGNMENT

UNFINISHED = "unfinished"  # a file that is in the folder while an export writes it

WEIGHTS = """/* The constants of @M. */
#if defined(__APPLE__)
#define SYMBOL _@P_weights
    .const
#else
#define SYMBOL @P_weights
    .section .rodata
#endif
    .globl SYMBOL
    .balign @A
SYMBOL:
    .incbin "weights.bin"
    .balign @A
    .zero @A
#if defined(__ELF__)
    .section .note.GNU-stack,"",%progbits
#endif
"""

MAIN = """/* Run @M on a file of inputs, and write its outputs to another.

       ./@P INPUTS OUTPUTS@H [RUNS]

   INPUTS holds the inputs one after the other, in the order of @P_inputs; OUTPUTS is written
   in the same way. With RUNS the median time of so many runs is printed. */
#define _POSIX_C_SOURCE 200809L
#include "@P.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void *aligned(size_t bytes)
{
    size_t whole = (bytes / 128 + 2) * 128;
    void *memory = aligned_alloc(128, whole);
    if (memory == NULL) {
        fprintf(stderr, "@P: there are no %zu bytes of memory\\n", whole);
        exit(1);
    }
    return memset(memory, 0, whole);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static FILE *opened(const char *path, const char *mode)
{
    FILE *file = fopen(path, mode);
    if (file == NULL) {
        fprintf(stderr, "@P: cannot open %s\\n", path);
        exit(1);
    }
    return file;
}

int main(int argc, char **argv)
{
    const void *inputs[@U_INPUTS + 1] = {0};
    void *outputs[@U_OUTPUTS + 1] = {0};
    size_t input_bytes[@U_INPUTS + 1], output_bytes[@U_OUTPUTS + 1];
    int runs = argc > @D ? atoi(argv[@D]) : 0;
    if (argc < @D) {
        fprintf(stderr, "usage: %s INPUTS OUTPUTS@H [RUNS]\\n", argv[0]);
        return 2;
    }
@B    void *arena = aligned(@E);
@W    FILE *file = opened(argv[1], "rb");
    for (int n = 0; n < @U_INPUTS; n++) {
        void *memory = aligned(input_bytes[n]);
        if (fread(memory, 1, input_bytes[n], file) != input_bytes[n]) {
            fprintf(stderr, "@P: %s ends before the input %s\\n", argv[1], @P_inputs[n].name);
            return 1;
        }
        inputs[n] = memory;
    }
    fclose(file);
    for (int n = 0; n < @U_OUTPUTS; n++)
        outputs[n] = aligned(output_bytes[n]);
    int fault = @R;
    if (fault) {
        fprintf(stderr, "@P: %s\\n", @P_fault(fault));
        return 1;
    }
    file = opened(argv[2], "wb");
    for (int n = 0; n < @U_OUTPUTS; n++)
        fwrite(outputs[n], 1, output_bytes[n], file);
    if (fclose(file) != 0) {
        fprintf(stderr, "@P: cannot write %s\\n", argv[2]);
        return 1;
    }
    if (runs > 0) {
        double *seconds = malloc(sizeof(double) * (size_t)runs);
        for (int n = 0; seconds != NULL && n < runs; n++) {
            double begin = now();
            @R;
            seconds[n] = now() - begin;
        }
        if (seconds != NULL) {
            qsort(seconds, (size_t)runs, sizeof(double), ascending);
            printf("%.3f us, the median of %d runs\\n", 1e6 * seconds[runs / 2], runs);
        }
        free(seconds);
    }
@Z    free(arena);
    for (int n = 0; n < @U_INPUTS; n++)
        free((void *)inputs[n]);
    for (int n = 0; n < @U_OUTPUTS; n++)
        free(outputs[n]);
    return 0;
}
"""

FIXED_BYTES = """    for (int n = 0; n < @U_INPUTS; n++)
        input_bytes[n] = @P_inputs[n].bytes;
    for (int n = 0; n < @U_OUTPUTS; n++)
        output_bytes[n] = @P_outputs[n].bytes;
"""
BYTES_OF_SIZES = """    int64_t shape[64];
@X    for (int n = 0; n < @U_INPUTS; n++)
        input_bytes[n] = @P_input_shape(n, shape@Y);
    for (int n = 0; n < @U_OUTPUTS; n++)
        output_bytes[n] = @P_output_shape(n, shape@Y);
"""
START = """    @P_workers *workers = aligned(@P_workers_bytes());
    if (@P_start(workers, @U_THREADS)) {
        fprintf(stderr, "@P: cannot start its threads\\n");
        return 1;
    }
"""
STOP = """    @P_stop(workers);
    free(workers);
"""

CMAKE = """cmake_minimum_required(VERSION 3.13)
project(@P C ASM)
if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/@F")
  message(FATAL_ERROR "this export was interrupted: export the model again")
endif()
set(CMAKE_C_STANDARD 11)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set_source_files_properties(weights.S PROPERTIES
  COMPILE_OPTIONS "-I${CMAKE_CURRENT_SOURCE_DIR}"
  OBJECT_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/weights.bin")
file(GLOB KERNELS "${CMAKE_CURRENT_SOURCE_DIR}/kernels/*.o")
set(SOURCES @P.c weights.S ${KERNELS})
add_library(@P_static STATIC ${SOURCES})
add_library(@P_shared SHARED ${SOURCES})
set_target_properties(@P_static @P_shared PROPERTIES OUTPUT_NAME @P
  POSITION_INDEPENDENT_CODE ON)
target_include_directories(@P_static PUBLIC "${CMAKE_CURRENT_SOURCE_DIR}")
target_link_libraries(@P_static PUBLIC m@T)
target_link_libraries(@P_shared PRIVATE m@T)
add_executable(@P main.c)
target_link_libraries(@P @P_static)
"""
THREADS = "find_package(Threads REQUIRED)\nadd_library("


def weights_assembler(prefix: str, name: str) -> str:
    """Return the assembler file that puts weights.bin into read-only memory."""
    return filled(WEIGHTS, {"M": name, "P": prefix, "A": str(ALIGNMENT)})


def main_program(prefix: str, program: PortableProgram) -> str:
    """Return a program that runs the model on a file, and times it."""
    bounds = program.symbols.bounds
    first = 3
    dims = [f"atoll(argv[{first + n}])" for n in range(len(bounds))]
    names = [f"dims[{n}]" for n in range(len(bounds))]
    passed = "".join(f", {name}" for name in names)
    workers = ", workers" if program.units > 1 else ""
    arena = f"{prefix}_arena_bytes({', '.join(names)})" if bounds else "@U_ARENA_BYTES"
    declared = f"    const int64_t dims[] = {{{', '.join(dims)}}};\n"
    words = {
        "B": BYTES_OF_SIZES if bounds else FIXED_BYTES,
        "W": START if workers else "",
        "Z": STOP if workers else "",
        "R": f"@P_run(inputs, outputs, arena{workers}{passed})",
        "E": arena,
        "X": declared,
        "Y": passed,
        "D": str(first + len(bounds)),
        "H": "".join(f" {comment(b.name)}" for b in bounds),
        "M": comment(program.name),
        "P": prefix,
        "U": prefix.upper(),
    }
    return filled(MAIN, words)


def cmake_lists(prefix: str, parallel: bool) -> str:
    """Return the CMake project: a static and a shared library, and the program."""
    text = CMAKE.replace("add_library(", THREADS, 1) if parallel else CMAKE
    threads = " Threads::Threads" if parallel else ""
    return filled(text, {"F": UNFINISHED, "T": threads, "P": prefix})
