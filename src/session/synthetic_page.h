/* A page that resembles text, as a grey PNG. For the warmup, which needs any image. */
#ifndef SESSION_SYNTHETIC_PAGE_H
#define SESSION_SYNTHETIC_PAGE_H

#include "base/err.h"

int synthetic_page_write(const char *path, unsigned width, unsigned height, struct err *err);

#endif
