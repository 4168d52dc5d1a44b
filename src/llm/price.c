#include "llm/price.h"

#include <math.h>
#include <stdio.h>

#define PER_MILLION 1e6
#define HOUR_S 3600.0

struct llm_price llm_price_of(const struct llm_static *r, double usd_per_hour, double mfu, double mbu) {
    struct llm_price p = { usd_per_hour, mfu, mbu, NAN, NAN, NAN };
    struct llm_static scaled = *r, at;
    double usd_per_s = usd_per_hour / HOUR_S, batch = (double)r->work.batch;
    if (!r->model->decodes) return p;
    scaled.setup.peak.flop_per_s *= mfu;
    scaled.setup.peak.quantized_flop_per_s *= mfu;
    scaled.setup.peak.bytes_per_s *= mbu;
    llm_static_vary(&scaled, r->work.batch, r->work.prompt_tokens, r->work.context, &at);
    bool whole = r->decode_steps > 0;
    double steps = whole ? (double)r->decode_steps : 1;
    double decode_s = whole ? at.generation.floor_s : at.decode.floor_s;
    p.prefill_usd = at.prefill.floor_s / (batch * (double)r->work.prompt_tokens) * PER_MILLION * usd_per_s;
    p.decode_usd = decode_s / (steps * batch) * PER_MILLION * usd_per_s;
    p.request_usd = (at.prefill.floor_s + (whole ? decode_s : 0)) / batch * usd_per_s;
    return p;
}

static const char *money(double usd, char *out, size_t cap) {
    if (isnan(usd))
        snprintf(out, cap, "\xe2\x80\x93");
    else
        snprintf(out, cap, usd >= 100 ? "$%.0f" : usd >= 1 ? "$%.2f" : "$%.3g", usd);
    return out;
}

static void add_amounts(const struct llm_price *p, const char *least, struct strbuf *out) {
    char a[32], b[32], c[32];
    strbuf_addf(
        out, "%s%s per million prompt tokens, %s%s per million generated tokens, %s%s per 1,000 requests\n",
        least, money(p->prefill_usd, a, sizeof a), least, money(p->decode_usd, b, sizeof b), least,
        money(p->request_usd * 1000, c, sizeof c));
}

void llm_price_text(const struct llm_price *roofline, const struct llm_price *at, struct llm_print how,
                    struct strbuf *out) {
    char hour[32];
    strbuf_addf(out, how.markdown ? "\n## Price at %s per hour\n\n" : "\nPrice at %s per hour\n",
                money(roofline->usd_per_hour, hour, sizeof hour));
    strbuf_addstr(out, "at the roofline: ");
    add_amounts(roofline, "at least ", out);
    if (!at) return;
    strbuf_addf(out, "%sat MFU %.3g%% and MBU %.3g%%: ", how.markdown ? "\n" : "", at->mfu * 100,
                at->mbu * 100);
    add_amounts(at, "", out);
}

static void write_amounts(const struct llm_price *p, struct jsonw *j) {
    jsonw_knum(j, "prefill_usd_per_million_tokens", p->prefill_usd);
    jsonw_knum(j, "decode_usd_per_million_tokens", p->decode_usd);
    jsonw_knum(j, "usd_per_request", p->request_usd);
}

void llm_price_json(const struct llm_price *roofline, const struct llm_price *at, struct jsonw *j) {
    jsonw_object(j);
    jsonw_knum(j, "usd_per_hour", roofline->usd_per_hour);
    jsonw_kobject(j, "at_the_roofline");
    write_amounts(roofline, j);
    jsonw_end(j);
    if (at) {
        jsonw_kobject(j, "at_the_efficiency");
        jsonw_knum(j, "mfu", at->mfu);
        jsonw_knum(j, "mbu", at->mbu);
        write_amounts(at, j);
        jsonw_end(j);
    }
    jsonw_end(j);
}
