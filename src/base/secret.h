/* Masks secrets in text that is stored or shown: tokens, passwords and keys in command lines, configurations,
 * logs and traces. There is one rule for names (secret_is_name), which all other functions use.
 *
 * Masking replaces a value by "***" in place, so the text never becomes longer. It does not allocate, so
 * the injected collector can use it too. Masking twice gives the same result as masking once. */
#ifndef BASE_SECRET_H
#define BASE_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#define SECRET_MASK "***"

/* Returns true if a variable, option or key with this name usually contains a secret. A name is split into
 * words at punctuation and at capitals (HF_TOKEN, --api-key, engine.load.accessToken). Secret: token,
 * auth, secret, password, api key and similar words, in the position where they name a value. Not secret:
 * max_new_tokens, token_count, tokenizer, key, pad_token. */
bool secret_is_name(const char *name, size_t len);

/* Returns true if the value of this environment variable of an engine must not be stored. Values that are
 * needed to repeat a run are stored: switches ("true", "off"), and, unless the name is secret, numbers and
 * the settings of well-known libraries (OMP_*, CUDA_*, NCCL_*, PYTHON*, ...). */
bool secret_is_env(const char *name, const char *value);

/* Masks secrets in command-line words, quoted or not: --token V, --token=V, TOKEN=V, "token": "V",
 * Authorization: Bearer V, scheme://user:V@host, and tokens with a well-known prefix (hf_, sk-, ghp_,
 * ...). */
void secret_mask(char *text);

/* The same for words separated by NUL, as in /proc/self/cmdline. Values with spaces are masked completely.
 * Returns the new length. */
size_t secret_mask_args(char *args, size_t n);

#endif
