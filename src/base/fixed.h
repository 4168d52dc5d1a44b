/* Formats numbers with a decimal point. printf's %f depends on the locale. */
#ifndef BASE_FIXED_H
#define BASE_FIXED_H

#define FIXED_MAX 40

/* Writes text[FIXED_MAX] and returns it. At most 6 decimals. "?": not finite, or beyond 9e12. */
const char *fixed_text(double v, unsigned decimals, char *text);

#endif
