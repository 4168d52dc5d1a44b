/* The price of tokens, from the price of the device per hour.
 *     struct llm_price p = llm_price_of(&r, 2.50, 1, 1);      -- at the roofline: the lowest price
 *     struct llm_price q = llm_price_of(&r, 2.50, 0.5, 0.7);  -- at 50% of the FLOP/s, 70% of the bytes/s */
#ifndef LLM_PRICE_H
#define LLM_PRICE_H

#include "llm/static.h"

struct llm_price {
    double usd_per_hour, mfu, mbu;
    /* USD per million prompt tokens, and per million generated tokens; NAN: unknown */
    double prefill_usd, decode_usd;
    double request_usd; /* price of one sequence of the batch: its prompt and its new tokens */
};

struct llm_price llm_price_of(const struct llm_static *r, double usd_per_hour, double mfu, double mbu);
/* `at`: the price at the efficiency that the user gave; NULL: no efficiency given. */
void llm_price_text(const struct llm_price *roofline, const struct llm_price *at, struct llm_print how,
                    struct strbuf *out);
void llm_price_json(const struct llm_price *roofline, const struct llm_price *at, struct jsonw *j);

#endif
