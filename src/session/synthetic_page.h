/* A page that resembles text, as a grey PNG. Used for the warmup, for which any image is sufficient. */
#ifndef SESSION_SYNTHETIC_PAGE_H
#define SESSION_SYNTHETIC_PAGE_H

#include "base/err.h"

int synthetic_page_write(const char *path, unsigned width, unsigned height, struct err *err);

#endif
