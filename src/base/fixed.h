/* A number as text with a decimal point, whatever the locale says; printf's %f follows the locale. */
#ifndef BASE_FIXED_H
#define BASE_FIXED_H

#define FIXED_MAX 40

/* Rounded to `decimals` (at most 6) places, into text[FIXED_MAX]; returns text. "?": not finite, or beyond
 * 9e12. */
const char *fixed_text(double v, unsigned decimals, char *text);

#endif
