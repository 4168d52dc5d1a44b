/* Parts of secret.c: characters, names and shapes of secrets. ASCII only, for every locale. */
#ifndef BASE_SECRET_PARTS_H
#define BASE_SECRET_PARTS_H

#include <stdbool.h>
#include <stddef.h>

static inline bool is_digit(unsigned char c) { return c >= '0' && c <= '9'; }
static inline bool is_upper(unsigned char c) { return c >= 'A' && c <= 'Z'; }
static inline bool is_lower(unsigned char c) { return c >= 'a' && c <= 'z'; }
static inline bool is_letter_or_digit(unsigned char c) { return is_digit(c) || is_upper(c) || is_lower(c); }
static inline unsigned char to_lower(unsigned char c) { return is_upper(c) ? c | 0x20 : c; }
static inline bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/* True if the n bytes at `word` are one of these words, in capitals or not. */
bool secret_one_of(const char *word, size_t n, const char *const *words, size_t nwords);

/* True for true, false, null, on, off and the like. */
bool secret_is_switch(const char *value, size_t n);

/* secret_is_env() for texts that do not end at a NUL. */
bool secret_is_env_part(const char *name, size_t name_len, const char *value, size_t n);

/* The run of n name characters starts with "hf_", "sk-" and so on, and continues as a token of that service.
 * Returns the length of the start; 0: not a token. */
size_t secret_shape(const char *run, size_t n);

#endif
