#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/secret.h"
#include "unit/test.h"

static void check_masked(const char *text, const char *want) {
    char *copy = xstrdup(text);
    secret_mask(copy);
    CHECK_STR(copy, want);
    secret_mask(copy);
    CHECK_STR(copy, want);
    free(copy);
}

static void check_kept(const char *text) { check_masked(text, text); }

TEST(secret_names_are_recognised_by_whole_words) {
    static const char *const secret[] = {
        "token",
        "HF_TOKEN",
        "--hf-token",
        "engine.env.HF_TOKEN",
        "accessToken",
        "HF_TOKEN_2",
        "secret",
        "CLIENT_SECRET",
        "password",
        "DB_PASSWORD",
        "passwd",
        "DB_PASS",
        "api_key",
        "--api-key",
        "apiKey",
        "APIKEY",
        "OPENAI_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "auth",
        "--auth",
        "credential",
        "credentials",
        "AWS_ACCESS_KEY_ID",
        "Authorization",
        "X-Api-Key",
        "ssh_key",
        "use_auth_token",
        "DOCKER_AUTH_CONFIG",
        "--key",
        "-key",
        "--pass",
        "--pwd",
        "PGPASSWORD",
        "mysqlPasswd",
        "--creds",
        "hftoken",
        "Cookie",
        "--githubtoken",
        "--mytoken",
        "--api_keys",
        "--passwords",
        "--accesskey",
        "--secretkey",
        "privatekey",
    };
    static const char *const plain[] = {
        "max_new_tokens",
        "tokenizer",
        "token_count",
        "key",
        "pad_token",
        "eos_token_id",
        "tokens",
        "ms_per_token",
        "keyboard",
        "author",
        "secretary",
        "monkey",
        "PWD",
        "passes",
        "",
        "forward_pass",
        "infer.max_new_tokens",
        "tokenizer_config",
        "first_token",
        "oauthor",
        "keys",
        "---",
        "pwd",
        "pass",
        "--keys",
        "compass",
        "subtoken",
        "maxtoken",
        "detokenizer",
    };
    for (size_t i = 0; i < sizeof secret / sizeof *secret; i++)
        if (!secret_is_name(secret[i], strlen(secret[i]))) fail_msg("%s is not recognised", secret[i]);
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (secret_is_name(plain[i], strlen(plain[i]))) fail_msg("%s is treated as a secret", plain[i]);
}

TEST(secrets_are_masked_in_every_form_of_a_command_line) {
    check_masked("serve --token abc x", "serve --token *** x");
    check_masked("serve --hf-token=abc,def x", "serve --hf-token=*** x");
    check_masked("HF_TOKEN=abc python run.py", "HF_TOKEN=*** python run.py");
    check_masked("inferprof profile +engine.env.HF_TOKEN=abc", "inferprof profile +engine.env.HF_TOKEN=***");
    check_masked("profile engine.env.NAME=abc", "profile engine.env.NAME=***");
    check_masked("curl -H 'Authorization: Bearer a b' u", "curl -H 'Authorization: Bearer ***' u");
    check_masked("curl -H Authorization: Bearer abc u", "curl -H Authorization: Bearer *** u");
    check_masked("curl -H 'X-Api-Key: abc'", "curl -H 'X-Api-Key: ***'");
    check_masked("get https://me:pass@host/x y", "get https://me:***@host/x y");
    check_masked("get 'https://host/x?a=1&token=abc&b=2'", "get 'https://host/x?a=1&token=***&b=2'");
    check_masked("git clone https://ghs0123456789abcdefghij@host/x", "git clone https://***@host/x");
    check_masked("'--password=two words' x", "'--password=***' x");
    check_masked("--password 'two words' x", "--password '***' x");
    check_masked("{\"token\": \"abc\", \"n\": 1}", "{\"token\": \"***\", \"n\": 1}");
    check_masked("'engine.env={HF_TOKEN: abc, N: 1}'", "'engine.env={HF_TOKEN: ***, N: 1}'");
    check_masked("login hf_AbCdEfGhIjKlMnOpQrStUv0123", "login hf_***");
    check_masked("--api-key x", "--api-key *");
    check_masked("serve --key abc --key=def", "serve --key *** --key=***");
    check_masked("PGPASSWORD=abc psql --pass abc", "PGPASSWORD=*** psql --pass ***");
    check_masked("curl -H 'Cookie: id=abc'", "curl -H 'Cookie: ***'");
    check_masked("get 'https://h/x?X-Amz-Date=1&X-Amz-Signature=abc'",
                 "get 'https://h/x?X-Amz-Date=1&X-Amz-Signature=***'");
    check_masked("'engine.command=[serve, --token, abc, 5]'", "'engine.command=[serve, --token, ***, 5]'");
}

TEST(secrets_are_masked_inside_scripts_and_code) {
    check_masked("sh -c 'app --token abc --api-key def; more x'",
                 "sh -c 'app --token *** --api-key ***; more x'");
    check_masked("sh -c \"app --token 'a b' -n 5\"", "sh -c \"app --token '***' -n 5\"");
    check_masked("'engine.command=[sh, -c, \"x --token abc\"]'",
                 "'engine.command=[sh, -c, \"x --token ***\"]'");
    check_masked("'{\"token\" : \"abc\"}'", "'{\"token\" : \"***\"}'");
    check_masked("{\"token\" : \"abc\"}", "{\"token\" : \"***\"}");
    check_masked("'{\\\"token\\\": \\\"abc\\\", \\\"n\\\": 1}'",
                 "'{\\\"token\\\": \\\"***\\\", \\\"n\\\": 1}'");
    check_masked("python -c 'os.environ[\"HF_TOKEN\"]=\"abc\"'",
                 "python -c 'os.environ[\"HF_TOKEN\"]=\"***\"'");
    check_masked("python -c 'login(token = \"abc\", n = 1)'", "python -c 'login(token = \"***\", n = 1)'");
    check_masked("curl -u me:abc --user you:def x", "curl -u me:*** --user you:*** x");
    check_masked("sh -c 'curl -u me:abc x'", "sh -c 'curl -u me:*** x'");
    check_kept("docker run -u 1000:1000 -u /a:b x");
}

TEST(secrets_are_masked_in_maps_of_variables) {
    check_masked("'engine.env={PRIVATE: abc, N: 1, LD_X: y, B: def}'",
                 "'engine.env={PRIVATE: ***, N: 1, LD_X: y, B: ***}'");
    check_masked("'+engine.env={\"PRIVATE\": \"a b\"}' model.name=x",
                 "'+engine.env={\"PRIVATE\": \"***\"}' model.name=x");
    check_masked("'engine={env: {PRIVATE: abc}, threads: some}'",
                 "'engine={env: {PRIVATE: ***}, threads: some}'");
    check_masked("engine.env.LD_X=https://u:abc@h", "engine.env.LD_X=https://u:***@h");
    check_masked("engine.env.PATHX=abc engine.env.PYTHONPW=abc",
                 "engine.env.PATHX=*** engine.env.PYTHONPW=***");
}

TEST(secrets_are_masked_in_queries_and_by_their_shape) {
    check_masked("get 'https://h/x?key=abc&b=2&pwd=def'", "get 'https://h/x?key=***&b=2&pwd=***'");
    check_masked("x AKIAIOSFODNN7EXAMPLE y", "x AKIA*** y");
    check_masked("gsk_AbCdEfGhIjKlMnOpQrStUv0123", "gsk_***");
    check_masked("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dBjftJeZ4CVP", "eyJ***");
    check_kept("AKIA AKIAxyz npm_install_packages_of_this eyJ");
}

TEST(ordinary_words_are_not_masked) {
    check_kept("python run.py infer.max_new_tokens=64 tokenizer=llama key=value token_count=3");
    check_kept("--token --other value");
    check_kept("--use-auth true --tokens 5 key value");
    check_kept("engine.env.INFERPROF_ISA=portable engine.env.PYTHONPATH=/a:/b");
    check_kept("engine.env.OMP_NUM_THREADS=4 engine.env.CUDA_VISIBLE_DEVICES=0,1");
    check_kept("model.path=/data/hf_transformers_models/token https://host:8080/x");
    check_kept("a folder does not keep secrets: set them again");
    check_kept("unexpected token: x; /etc/secret: no such file");
    check_kept("it's a 'text' with \"quotes\" and 'one open");
    check_kept("HF_TOKEN=${oc.env:HF_TOKEN}");
    check_kept("");
}

TEST(secret_arguments_with_spaces_are_masked_whole) {
    char args[] = "serve\0--password\0two words\0--n\0005\0TOKEN=a b\0";
    size_t n = secret_mask_args(args, sizeof args - 1);
    static const char want[] = "serve\0--password\0***\0--n\0005\0TOKEN=***\0";
    CHECK_INT(n, sizeof want - 1);
    CHECK_MEM(args, want, n);
}

TEST(masking_a_long_hostile_word_is_linear) {
    size_t n = 8u << 20;
    char *text = xmalloc(n + 1);
    static const char part[] = "?a_token=abcd&x://u:p@h{auth=1,";
    for (size_t i = 0; i < n; i++) text[i] = part[i % (sizeof part - 1)];
    text[n] = '\0';
    secret_mask(text);
    CHECK(strlen(text) < n);
    CHECK(strstr(text, "abcd") == NULL);
    free(text);
}
