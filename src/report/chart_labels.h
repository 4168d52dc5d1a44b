#ifndef REPORT_CHART_LABELS_H
#define REPORT_CHART_LABELS_H

#include <stddef.h>

/* The labels of one chart, in pixels. y is the baseline and grows downwards. */
struct chart_labels {
    struct {
        double x0, x1, y;
    } v[48];
    size_t n;
};

/* Reserves the place of a mark, so that no label is placed on it. */
void chart_labels_reserve(struct chart_labels *l, double x0, double x1, double y);
/* Returns the baseline for a label from x0 to x1: y, or the first position below y that overlaps no other
 * label and no mark. */
double chart_labels_place(struct chart_labels *l, double x0, double x1, double y);

#endif
