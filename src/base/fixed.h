/* Formats a number with a decimal point in every locale; printf's %f depends on the locale. */
#ifndef BASE_FIXED_H
#define BASE_FIXED_H

#define FIXED_MAX 40

/* Rounds to `decimals` (at most 6) places, into text[FIXED_MAX]; returns text. "?": not finite, or beyond
 * 9e12. */
const char *fixed_text(double v, unsigned decimals, char *text);

#endif
