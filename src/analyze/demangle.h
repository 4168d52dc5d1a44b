/* Demangles C++ names of the Itanium ABI ("_ZN2at6native..."). The caller frees the result. */
#ifndef ANALYZE_DEMANGLE_H
#define ANALYZE_DEMANGLE_H

/* Returns NULL if the name is not mangled, uses a newer ABI than libstdc++'s demangler, or if the name or the
 * result is too long. */
char *demangle(const char *name);
/* For mangled names that demangle() cannot handle, such as names with bf16 (DF16b). Collects the
 * identifiers, each of which follows its length: "_ZN5aiter4normI3fooE" becomes "aiter::norm<foo>". Built-in
 * types and back references are left out. */
char *demangle_roughly(const char *mangled);

#endif
