/* A page that looks like text from afar, as a grey PNG: warm-up needs an image, not this image. */
#ifndef SESSION_SYNTHETIC_PAGE_H
#define SESSION_SYNTHETIC_PAGE_H

#include "base/err.h"

int synthetic_page_write(const char *path, unsigned width, unsigned height, struct err *err);

#endif
