/* Every URL of the server. tests/serve/routes.py checks that web/openapi.json lists the same paths. */
#include "base/util.h"
#include "serve/api.h"
#include "serve/jobs.h"
#include "serve/pages.h"
#include "serve/server.h"

#define API "/api/v1"
#define GET_ROW(row_path, function) \
    { .method = "GET", .path = row_path, .role = HTTP_READ, .handle = function }
#define CACHED(row_path, function) \
    { .method = "GET", .path = row_path, .role = HTTP_READ, .handle = function, .cached = true }
#define TAGGED(row_path, function) \
    { .method = "GET", .path = row_path, .role = HTTP_READ, .handle = function, .tagged = true }
/* names: the parameters of the query; others are refused */
#define FILTERED(row_path, function, names)                                                       \
    {                                                                                             \
        .method = "GET", .path = row_path, .role = HTTP_READ, .handle = function, .cached = true, \
        .query = names                                                                            \
    }
#define PAGE(row_path, function) \
    { .method = "GET", .path = row_path, .role = HTTP_READ, .handle = function, .cached = true, .page = true }

const struct http_route server_routes[] = {
    { .method = "GET", .path = "/", .role = HTTP_NOBODY, .handle = page_home, .page = true },
    { .method = "GET", .path = "/login", .role = HTTP_NOBODY, .handle = page_login, .page = true },
    { .method = "POST", .path = "/login", .handle = page_login_post, .body = HTTP_SMALL_BODY, .page = true },
    { .method = "GET", .path = "/assets/{name}", .role = HTTP_NOBODY, .handle = page_asset },
    PAGE("/runs", page_runs),
    PAGE("/runs/{run}", page_run),
    { .method = "GET",
      .path = "/runs/{run}/report",
      .role = HTTP_READ,
      .handle = api_get_report,
      .page = true },
    { .method = "GET",
      .path = "/runs/{run}/ranks",
      .role = HTTP_READ,
      .handle = api_get_ranks,
      .page = true },
    PAGE("/compare", page_compare),
    PAGE("/trends", page_trends),
    PAGE("/findings", page_findings),
    PAGE("/machines", page_machines),
    { .method = "GET", .path = "/jobs", .role = HTTP_READ, .handle = page_jobs, .page = true },
    GET_ROW("/metrics", api_metrics),

    FILTERED(API "/runs", api_list_runs,
             "model device engine host version tag search stage since until sort order limit cursor"),
    { .method = "POST",
      .path = API "/runs",
      .role = HTTP_WRITE,
      .handle = api_end_upload,
      .body = HTTP_STREAM_BODY,
      .begin = api_begin_post,
      .receive = api_receive_upload },
    CACHED(API "/runs/{run}", api_get_run),
    { .method = "DELETE", .path = API "/runs/{run}", .role = HTTP_WRITE, .handle = api_delete_run },
    CACHED(API "/runs/{run}/figures", api_get_figures),
    CACHED(API "/runs/{run}/findings", api_get_findings),
    TAGGED(API "/runs/{run}/artifacts", api_list_artifacts),
    { .method = "GET",
      .path = API "/runs/{run}/artifact",
      .role = HTTP_READ,
      .handle = api_get_artifact,
      .query = "path" },
    { .method = "POST",
      .path = API "/runs/{run}/tags",
      .role = HTTP_WRITE,
      .handle = api_tag_run,
      .body = HTTP_SMALL_BODY },
    GET_ROW(API "/uploads/{digest}", api_get_upload),
    { .method = "PUT",
      .path = API "/uploads/{digest}",
      .role = HTTP_WRITE,
      .handle = api_end_upload,
      .body = HTTP_STREAM_BODY,
      .begin = api_begin_upload,
      .receive = api_receive_upload },
    FILTERED(API "/compare", api_compare, "a b"),
    CACHED(API "/series", api_list_series),
    FILTERED(API "/trends", api_get_trend, "model device engine stage metric runs baseline"),
    FILTERED(API "/findings", api_list_findings, "model device engine rule runs"),
    CACHED(API "/machines", api_list_machines),
    { .method = "GET", .path = API "/health", .role = HTTP_NOBODY, .handle = api_health },
    GET_ROW(API "/metrics", api_metrics),
    { .method = "GET",
      .path = API "/openapi.json",
      .role = HTTP_NOBODY,
      .handle = api_openapi,
      .tagged = true },

    { .method = "POST",
      .path = API "/profiles",
      .role = HTTP_RUN,
      .handle = api_post_profile,
      .body = HTTP_SMALL_BODY },
    TAGGED(API "/profiles", api_list_profiles),
    TAGGED(API "/profiles/{run}", api_get_profile),
    { .method = "DELETE", .path = API "/profiles/{run}", .role = HTTP_RUN, .handle = api_cancel_profile },
    GET_ROW(API "/profiles/{run}/events", api_profile_events),
    TAGGED(API "/profiles/{run}/artifacts", api_profile_artifacts),
    TAGGED(API "/reports/{run}", api_get_report_summary),
};
const size_t server_routes_n = COUNTOF(server_routes);
