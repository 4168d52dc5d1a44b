#include <stdio.h>
#include <string.h>

#include "serve/http_rate.h"
#include "unit/test.h"

#define SECOND_NS 1000000000u

TEST(a_client_may_send_a_burst_and_then_waits) {
    static struct http_rate rate;
    int taken = 0;
    for (int i = 0; i < 100; i++) taken += http_rate_take(&rate, "10.0.0.1", SECOND_NS, 10);
    CHECK_INT(taken, 40);
    CHECK(!http_rate_take(&rate, "10.0.0.1", SECOND_NS + SECOND_NS / 20, 10));
    CHECK(http_rate_take(&rate, "10.0.0.1", SECOND_NS + SECOND_NS / 5, 10));
}

TEST(two_clients_with_one_slot_do_not_refill_it) {
    static struct http_rate rate;
    char other[32] = "";
    for (int i = 0; http_rate_slot(other) != http_rate_slot("10.0.0.1") || strcmp(other, "10.0.0.1") == 0;
         i++)
        snprintf(other, sizeof other, "10.%d.%d.%d", i >> 16 & 255, i >> 8 & 255, i & 255);
    int taken = 0;
    for (int i = 0; i < 200; i++) taken += http_rate_take(&rate, i % 2 ? other : "10.0.0.1", SECOND_NS, 10);
    CHECK_INT(taken, 40);
}

TEST(clients_with_other_slots_do_not_wait) {
    static struct http_rate rate;
    char other[32] = "10.0.0.2";
    for (int i = 3; http_rate_slot(other) == http_rate_slot("10.0.0.1"); i++)
        snprintf(other, sizeof other, "10.0.0.%d", i);
    while (http_rate_take(&rate, "10.0.0.1", SECOND_NS, 10)) {}
    CHECK(http_rate_take(&rate, other, SECOND_NS, 10));
}
