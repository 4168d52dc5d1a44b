/* locale NAME: runs the workload in this locale. */
#include <locale.h>
#include <stdio.h>
#include <unistd.h>

#include "guests/guest.h"

int main(int argc, char **argv) {
    if (!setlocale(LC_ALL, argc > 1 ? argv[1] : "")) guest_fail("no locale %s", argc > 1 ? argv[1] : "");
    guest_cuda();
    for (int i = 0; i < 12; i++) {
        guest_push("range");
        guest_kernels(10);
        guest_pop();
        usleep(100000);
    }
    printf("%.1f\n", 0.5);
    return 0;
}
