/* Reads a picture in a simple format (PPM, "P6"), for the examples. Convert your own pictures with
 * `pngtopnm` or `convert`. */
#ifndef EXAMPLES_PPM_H
#define EXAMPLES_PPM_H

#include <stdio.h>
#include <stdlib.h>

/* Red, green and blue planes, one after the other, each value / 255. The caller frees them; null if the file is not such a
 * picture. */
static float *read_ppm(const char *path, unsigned *width, unsigned *height)
{
    unsigned most = 0;
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return NULL;
    }
    if (fscanf(file, "P6 %u %u %u", width, height, &most) != 3 || fgetc(file) == EOF || most != 255 || *width == 0 ||
        *height == 0 || *width > 16384 || *height > 16384) {
        fclose(file);
        return NULL;
    }
    size_t pixels = (size_t)*width * *height;
    unsigned char *bytes = (unsigned char *)malloc(pixels * 3);
    float *planes = (float *)malloc(pixels * 3 * sizeof(float));
    size_t found = bytes == NULL ? 0 : fread(bytes, 3, pixels, file);
    fclose(file);
    if (planes == NULL || found != pixels) {
        free(bytes);
        free(planes);
        return NULL;
    }
    for (size_t pixel = 0; pixel < pixels; pixel++) {
        for (size_t colour = 0; colour < 3; colour++) {
            planes[colour * pixels + pixel] = (float)bytes[pixel * 3 + colour] / 255.0f;
        }
    }
    free(bytes);
    return planes;
}

#endif
