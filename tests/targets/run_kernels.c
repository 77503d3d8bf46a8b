/* Run kernel calls on their memory images, from the input to the output: see foreign.py. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef void kernel_t(int64_t first, int64_t last, int64_t args);
#define KERNEL(name) kernel_t name;
#include "kernels.h"
#undef KERNEL
#define KERNEL(name) name,
static kernel_t *kernels[] = {
#include "kernels.h"
};

int main(void)
{
    int64_t head[4];
    while (fread(head, 8, 4, stdin) == 4) {
        int64_t *words = malloc(16 * head[2] + 16);
        unsigned char *image = aligned_alloc(64, (head[3] + 127) / 64 * 64);
        if (fread(words, 16, head[2], stdin) != (size_t)head[2]) return 1;
        if (fread(image, 1, head[3], stdin) != (size_t)head[3]) return 1;
        for (int64_t n = 0; n < head[2]; n++)
            words[n] = words[2 * n + 1] + (words[2 * n] ? (int64_t)(intptr_t)image : 0);
        kernels[head[0]](0, head[1], (int64_t)(intptr_t)words);
        if (fwrite(image, 1, head[3], stdout) != (size_t)head[3]) return 1;
        free(words);
        free(image);
    }
    return 0;
}
