#include <fnmatch.h>
#include <stdlib.h>

#include "collect/glob.c"
#include "unit/test.h"

TEST(globs_match_as_fnmatch_does_in_the_c_locale) {
    static const char letters[] = "ab*?[]!-\\c";
    unsigned seed = 7;
    for (int i = 0; i < 200000; i++) {
        char pattern[10] = "", text[8] = "";
        for (unsigned k = 0, n = (seed = seed * 1103515245 + 12345) >> 16 & 7; k < n; k++)
            pattern[k] = letters[((seed = seed * 1103515245 + 12345) >> 16) % (sizeof letters - 1)];
        for (unsigned k = 0, n = (seed = seed * 1103515245 + 12345) >> 16 & 3; k < n; k++)
            text[k] = "abc]"[(seed = seed * 1103515245 + 12345) >> 16 & 3];
        bool want = fnmatch(pattern, text, 0) == 0;
        if (glob_match(pattern, text) != want) fprintf(stderr, "pattern '%s', text '%s'\n", pattern, text);
        CHECK_INT(glob_match(pattern, text), want);
    }
}

TEST(globs_take_bytes_of_any_encoding) {
    CHECK(glob_match("d\xe9*", "d\xe9"
                               "code"));
    CHECK(glob_match("*\xc3\xa9", "d\xc3\xa9"));
    CHECK(!glob_match("decode*", "prefill"));
}
