#include "serve/http_api.h"

#include "base/shared_library.h"
#include "base/util.h"

struct mhd_api mhd;

int mhd_load(struct err *err) {
    static const struct library_function functions[] = {
        { "MHD_start_daemon", &mhd.start },
        { "MHD_stop_daemon", &mhd.stop },
        { "MHD_get_daemon_info", &mhd.info },
        { "MHD_lookup_connection_value", &mhd.lookup },
        { "MHD_get_connection_values", &mhd.values },
        { "MHD_get_connection_info", &mhd.connection_info },
        { "MHD_set_connection_option", &mhd.set_option },
        { "MHD_create_response_from_buffer", &mhd.from_buffer },
        { "MHD_create_response_from_fd64", &mhd.from_fd },
        { "MHD_create_response_from_callback", &mhd.from_callback },
        { "MHD_add_response_header", &mhd.add_header },
        { "MHD_queue_response", &mhd.queue },
        { "MHD_destroy_response", &mhd.destroy },
        { "MHD_suspend_connection", &mhd.suspend },
        { "MHD_resume_connection", &mhd.resume },
        { "MHD_http_unescape", &mhd.unescape },
    };
    return library_load("libmicrohttpd.so.12", "libmicrohttpd12", functions, COUNTOF(functions), err);
}
