#include "report/unrecorded.h"

#include "base/text.h"

void text_unrecorded(struct strbuf *out, const struct analysis_unrecorded *u) {
    if (!u->devices) return;
    strbuf_addf(out, "Unrecorded, not idle: %s", text_ms(u->ns * 1e-6).s);
    if (u->devices > 1) strbuf_addf(out, " on %zu devices", u->devices);
    strbuf_addf(out, " (waits of over %s", text_num(u->least_limit_ns * 1e-3, 0).s);
    if (u->most_limit_ns > u->least_limit_ns)
        strbuf_addf(out, " to %s", text_num(u->most_limit_ns * 1e-3, 0).s);
    strbuf_addstr(out, " us after a launch, or outside of capture windows).");
}
