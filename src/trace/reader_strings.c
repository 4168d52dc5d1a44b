#include "trace/reader_strings.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/secret.h"
#include "base/vec.h"

uint32_t reader_strings_end(const struct reader_strings *t) {
    if (t->runs.n == 0) return 1;
    const struct reader_string_run *last = &t->runs.v[t->runs.n - 1];
    return last->first + last->n;
}

static int read_texts(struct reader_string_run *run, struct bytes raw, struct err *err) {
    uint32_t at = 0;
    for (uint32_t i = 0; i < run->n; i++) {
        uint64_t len;
        struct bytes text;
        if (!bytes_varint(&raw, &len) || len > UINT32_MAX || !bytes_slice(&raw, (size_t)len, &text))
            return err_set(err, "string chunk ends inside string %u of %u", i, run->n);
        memcpy(run->text + at, text.p, (size_t)len);
        run->offsets[i] = at;
        at += (uint32_t)len;
        run->ends[i] = at;
        run->text[at++] = '\0';
    }
    return bytes_left(&raw) ? err_set(err, "string chunk has %zu bytes too many", bytes_left(&raw)) : 0;
}

int reader_strings_add(struct reader_strings *t, struct bytes raw, uint32_t count, uint32_t disk_bytes,
                       struct err *err) {
    uint64_t first;
    if (!bytes_varint(&raw, &first) || first < reader_strings_end(t) || first > UINT32_MAX - count)
        return err_set(err, "string chunk whose numbers are out of order");
    if (first > t->n + READER_STRINGS_LOST_MAX)
        return err_set(err, "string chunk whose numbers are too far from those before it");
    struct reader_string_run run = { .first = (uint32_t)first, .n = count };
    run.offsets = xmalloc(((size_t)count + 1) * sizeof *run.offsets);
    run.ends = xmalloc(((size_t)count + 1) * sizeof *run.ends);
    run.text = xmalloc(bytes_left(&raw) + count); /* all texts, with one NUL each */
    if (read_texts(&run, raw, err) < 0) {
        free(run.offsets);
        free(run.ends);
        free(run.text);
        return -1;
    }
    vec_push(&t->runs, run);
    t->n += count;
    t->disk_bytes += disk_bytes;
    return 0;
}

/* Finds the run that contains string `id`, and the index in it; NULL: no such string. */
static struct reader_string_run *find_run(const struct reader_strings *t, uint32_t id, uint32_t *index) {
    size_t lo = 0, hi = t->runs.n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (t->runs.v[mid].first <= id)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == 0) return NULL;
    struct reader_string_run *run = &t->runs.v[lo - 1];
    *index = id - run->first;
    return *index < run->n ? run : NULL;
}

const char *reader_strings_get(const struct reader_strings *t, uint32_t id, size_t *len) {
    uint32_t i;
    const struct reader_string_run *run = id ? find_run(t, id, &i) : NULL;
    if (len) *len = run ? run->ends[i] - run->offsets[i] : 0;
    if (run) return run->text + run->offsets[i];
    return id == 0 ? "" : NULL;
}

void reader_strings_mask(struct reader_strings *t, uint32_t id) {
    uint32_t i;
    struct reader_string_run *run = id ? find_run(t, id, &i) : NULL;
    if (!run) return;
    char *text = run->text + run->offsets[i];
    secret_mask(text);
    run->ends[i] = run->offsets[i] + (uint32_t)strlen(text);
}

void reader_strings_free(struct reader_strings *t) {
    for (size_t i = 0; i < t->runs.n; i++) {
        free(t->runs.v[i].offsets);
        free(t->runs.v[i].ends);
        free(t->runs.v[i].text);
    }
    free(t->runs.v);
    *t = (struct reader_strings){ 0 };
}
