/* A bitmap font of five by seven pixels for labels on images: most of ASCII. Other characters are drawn
 * as a box. */
#ifndef ENGINE_OCR_FONT_H
#define ENGINE_OCR_FONT_H

#include <stddef.h>

#define FONT_GLYPH_WIDTH 5
#define FONT_ADVANCE 6 /* distance from one character to the next */
#define FONT_HEIGHT 7

/* called for each set pixel, relative to the text's corner */
typedef void (*font_pixel_fn)(void *context, int x, int y);

int font_width(const char *text, size_t n); /* pixels */
void font_draw(const char *text, size_t n, font_pixel_fn pixel, void *context);

#endif
