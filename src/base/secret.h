/* Masks secrets in text that is stored or shown: tokens, passwords and keys in command lines, configurations,
 * logs and traces. There is one rule for names (secret_is_name); everything else applies it.
 *
 * Masking replaces a value by "***", in place: the text never becomes longer. Nothing is allocated, so that
 * the injected collector can use it too. Masking twice is the same as masking once. */
#ifndef BASE_SECRET_H
#define BASE_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#define SECRET_MASK "***"

/* True if a variable, option or key with this name usually holds a secret. A name is split into words at
 * punctuation and at capitals (HF_TOKEN, --api-key, engine.load.accessToken). Secret: token, auth, secret,
 * password, api key and similar words at the place where they name a value. Not secret: max_new_tokens,
 * token_count, tokenizer, key, pad_token. */
bool secret_is_name(const char *name, size_t len);

/* True if the value of this environment variable of an engine must not be stored. Only numbers, switches and
 * the settings of well-known libraries (OMP_*, CUDA_*, NCCL_*, PYTHON*, ...) are stored: a run is repeated
 * with them. */
bool secret_is_env(const char *name, const char *value);

/* Masks in a text of words as on a command line, quoted or not: --token V, --token=V, TOKEN=V,
 * "token": "V", Authorization: Bearer V, scheme://user:V@host, and tokens with a well-known prefix (hf_, sk-,
 * ghp_, ...). */
void secret_mask(char *text);

/* The same for words separated by NUL, as in /proc/self/cmdline: a value with spaces is masked whole. Returns
 * the new length. */
size_t secret_mask_args(char *args, size_t n);

#endif
