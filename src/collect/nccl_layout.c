#include "collect/nccl_layout.h"

#define NONE NCCL_ABSENT
#define NO_COMM .coll_name = NONE, .coll_hash = NONE, .p2p_name = NONE, .p2p_hash = NONE
#define NO_API .coll_api_captured = NONE, .p2p_api_captured = NONE
#define NO_CE .ce_sequence = NONE, .ce_function = NONE, .ce_count = NONE, .ce_root = NONE, .ce_type = NONE
#define HEAD .type = 0, .parent = 8, .rank = 16
/* Version 4 moved the communicator from the events to init(). */
#define COLL_WITH_COMM                                                                            \
    .coll_name = 24, .coll_hash = 32, .coll_sequence = 40, .coll_function = 48, .coll_count = 72, \
    .coll_root = 80, .coll_type = 88, .coll_channels = NONE, .p2p_name = 24, .p2p_hash = 32,      \
    .p2p_function = 40, .p2p_type = 56, .p2p_count = 64, .p2p_peer = 72, .p2p_channels = NONE
#define COLL                                                                                      \
    .coll_sequence = 24, .coll_function = 32, .coll_count = 56, .coll_root = 64, .coll_type = 72, \
    .coll_max_channels = NONE, .coll_channels = 80, .coll_algorithm = 88, .coll_protocol = 96,    \
    .p2p_function = 24, .p2p_type = 40, .p2p_count = 48, .p2p_peer = 56, .p2p_channels = 60,      \
    .channel_id = 24, .channel_timer = 32, .state_timer = 0

static const struct nccl_layout layouts[] = {
    { .size = 128,
      .type_bytes = 1,
      HEAD,
      COLL_WITH_COMM,
      .coll_max_channels = 104,
      .coll_algorithm = 112,
      .coll_protocol = 120,
      .channel_id = NONE,
      .channel_timer = NONE,
      .state_timer = NONE,
      NO_API,
      NO_CE },
    { .size = 120,
      .type_bytes = 1,
      HEAD,
      COLL_WITH_COMM,
      .coll_max_channels = 96,
      .coll_algorithm = 104,
      .coll_protocol = 112,
      .channel_id = 24,
      .channel_timer = NONE,
      .state_timer = NONE,
      NO_API,
      NO_CE },
    { .size = 104, .type_bytes = 1, HEAD, NO_COMM, COLL, NO_API, NO_CE },
    { .size = 112,
      .type_bytes = 8,
      HEAD,
      NO_COMM,
      COLL,
      .coll_api_captured = 64,
      .p2p_api_captured = 56,
      NO_CE },
    { .size = 112,
      .type_bytes = 8,
      HEAD,
      NO_COMM,
      COLL,
      .coll_api_captured = 64,
      .p2p_api_captured = 56,
      .ce_sequence = 24,
      .ce_function = 32,
      .ce_count = 56,
      .ce_root = 64,
      .ce_type = 72 },
    { .size = 136,
      .type_bytes = 8,
      HEAD,
      NO_COMM,
      COLL,
      .coll_api_captured = 64,
      .p2p_api_captured = 56,
      .ce_sequence = 24,
      .ce_function = 32,
      .ce_count = 56,
      .ce_root = 64,
      .ce_type = 72 },
};

const struct nccl_layout *nccl_layout(unsigned version) {
    if (version < NCCL_FIRST_VERSION || version > NCCL_LAST_VERSION) return NULL;
    return &layouts[version - NCCL_FIRST_VERSION];
}
