/* Arbitrary bytes as a file of prompts (JSONL, dataset.kind=prompts); also their order and inputs.yaml. */
#include <stdint.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "fuzz/memory_file.h"
#include "session/dataset.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct memory_file f = memory_file_open(data, size);
    struct settings s = { 0 };
    struct dataset d = { 0 };
    struct strlist errors = { 0 };
    struct strbuf yaml = STRBUF_INIT;
    s.dataset.name = s.dataset.kind = "prompts";
    s.dataset.prompts = f.path;
    s.dataset.sampling.num_samples_per_epoch = -1; /* all */
    s.dataset.sampling.num_epochs = 1;
    dataset_open(&d, &s, &errors);
    if (d.n) {
        dataset_order(&d, &s, 3);
        dataset_yaml(&d, &yaml);
    }
    strbuf_free(&yaml);
    dataset_free(&d);
    strlist_free(&errors);
    close(f.fd);
    return 0;
}
