/* Masks tokens, passwords and keys in command lines, configurations, logs and traces. A value is replaced by
 * "***" in place, so the text never becomes longer, and nothing is allocated: the collector can use it.
 * Masking twice gives the same result as masking once. */
#ifndef BASE_SECRET_H
#define BASE_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#define SECRET_MASK "***"

/* True if a variable, option or key with this name usually contains a secret, such as HF_TOKEN, --api-key or
 * engine.load.accessToken. False for max_new_tokens, token_count, tokenizer, key and pad_token. */
bool secret_is_name(const char *name, size_t len);

/* True if the value of this environment variable of an engine must not be stored. Switches ("true", "off")
 * are stored. If the name is not secret, numbers and settings of well-known libraries (OMP_*, CUDA_*, ...)
 * are stored too. */
bool secret_is_env(const char *name, const char *value);

/* Masks secrets in a command line: --token V, --token=V, TOKEN=V, "token": "V", Authorization: Bearer V,
 * scheme://user:V@host, and tokens with a known prefix (hf_, sk-, ghp_, ...). */
void secret_mask(char *text);

/* Like secret_mask(), for words separated by NUL, as in /proc/self/cmdline. Values with spaces are masked
 * completely. Returns the new length. */
size_t secret_mask_args(char *args, size_t n);

#endif
