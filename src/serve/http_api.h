/* Functions of libmicrohttpd. */
#ifndef SERVE_HTTP_API_H
#define SERVE_HTTP_API_H

#include <microhttpd.h>

#include "base/err.h"

struct mhd_api {
    __typeof__(MHD_start_daemon) *start;
    __typeof__(MHD_stop_daemon) *stop;
    __typeof__(MHD_get_daemon_info) *info;
    __typeof__(MHD_lookup_connection_value) *lookup;
    __typeof__(MHD_get_connection_values) *values;
    __typeof__(MHD_get_connection_info) *connection_info;
    __typeof__(MHD_set_connection_option) *set_option;
    __typeof__(MHD_create_response_from_buffer) *from_buffer;
    __typeof__(MHD_create_response_from_fd64) *from_fd;
    __typeof__(MHD_create_response_from_callback) *from_callback;
    __typeof__(MHD_add_response_header) *add_header;
    __typeof__(MHD_queue_response) *queue;
    __typeof__(MHD_destroy_response) *destroy;
    __typeof__(MHD_suspend_connection) *suspend;
    __typeof__(MHD_resume_connection) *resume;
    __typeof__(MHD_http_unescape) *unescape;
};
extern struct mhd_api mhd;
int mhd_load(struct err *err);

#endif
