#include "report/chart_labels.h"

#include <math.h>

#include "base/util.h"

/* STEP must be larger than OVERLAP. If they were equal, rounding could make a moved label overlap again, and
 * the search would not end. */
#define STEP 13.0
#define OVERLAP 12.5

void chart_labels_reserve(struct chart_labels *l, double x0, double x1, double y) {
    if (l->n == COUNTOF(l->v)) return;
    l->v[l->n].x0 = x0;
    l->v[l->n].x1 = x1;
    l->v[l->n++].y = y;
}

double chart_labels_place(struct chart_labels *l, double x0, double x1, double y) {
    for (size_t i = 0; i < l->n;) {
        if (x0 < l->v[i].x1 && x1 > l->v[i].x0 && fabs(y - l->v[i].y) < OVERLAP) {
            y = l->v[i].y + STEP;
            i = 0;
        } else {
            i++;
        }
    }
    chart_labels_reserve(l, x0, x1, y);
    return y;
}
