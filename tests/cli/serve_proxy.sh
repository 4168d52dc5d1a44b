#!/bin/sh
# The examples of docs/examples/serve: nginx with TLS in front of the server, on a socket of its own, and the systemd unit.
. tests/cli/lib.sh
name="nginx in front of the server"
PATH=$PATH:/usr/sbin
if ! command -v nginx >/dev/null || ! command -v openssl >/dev/null || ! command -v systemd-analyze >/dev/null; then
    [ "${CI:-}" = true ] && timeout 300 sh scripts/deps.sh proxy >"$work/deps.log" 2>&1
    if ! command -v nginx >/dev/null; then
        if [ "${CI:-}" = true ]; then not_ok "$name" "$(tail -n 1 "$work/deps.log")"; else skip "$name" "nginx is not installed"; fi
        exit 0
    fi
fi

mkdir -p "$work/site" "$work/runs" "$work/one/first"
printf '{"schema": "inferprof-metrics", "schema_version": 1, "run": {"id": "first"}}' >"$work/one/first/metrics.json"
"$INFERPROF" serve --root "$work/runs" --listen 127.0.0.1:0 >"$work/serve.out" 2>"$work/serve.err" &
server=$!
proxy=
trap 'kill $server $proxy 2>/dev/null' EXIT
i=0
while ! grep -q http "$work/serve.out" && [ $i -lt 100 ]; do sleep 0.1; i=$((i + 1)); done
port=$(grep -oE '[0-9]+/?$' "$work/serve.out" | tr -d /)

openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=inferprof.example.org -keyout "$work/site/key" -out "$work/site/cert" 2>/dev/null
sed -e "s,listen 443,listen unix:$work/site/socket," -e "s,/etc/ssl/inferprof.pem,$work/site/cert," -e "s,/etc/ssl/inferprof.key,$work/site/key," \
    -e "s,127.0.0.1:8080,127.0.0.1:$port," docs/examples/serve/nginx.conf >"$work/site/server.conf"
cat >"$work/site/nginx.conf" <<END
daemon off;
master_process off;
pid $work/site/pid;
error_log $work/site/error.log;
events {}
http {
    access_log off;
    client_body_temp_path $work/site/body;
    proxy_temp_path $work/site/proxy;
    fastcgi_temp_path $work/site/fastcgi;
    uwsgi_temp_path $work/site/uwsgi;
    scgi_temp_path $work/site/scgi;
    include $work/site/server.conf;
}
END
run nginx -t -p "$work/site" -c "$work/site/nginx.conf" -e "$work/site/error.log"
expect "nginx accepts the example" 0
nginx -p "$work/site" -c "$work/site/nginx.conf" -e "$work/site/error.log" &
proxy=$!
i=0
while [ ! -S "$work/site/socket" ] && [ $i -lt 100 ]; do sleep 0.1; i=$((i + 1)); done

# answers CODE PATH CURL_OPTIONS...: the status of a request through nginx
answers() {
    want=$1 path=$2
    shift 2
    got=$(curl -sS -m 30 --unix-socket "$work/site/socket" --cacert "$work/site/cert" -o "$work/out" -w '%{http_code}' "$@" "https://inferprof.example.org$path" 2>"$work/err")
    [ "$got" = "$want" ] || { echo "$got instead of $want: $(cat "$work/err") $(head -c 300 "$work/out") $(tail -n 2 "$work/site/error.log")"; return 1; }
}
check "a page is served with TLS" answers 200 /runs
tar -C "$work/one" -cf "$work/run.tar" first
check "a run is uploaded through nginx" answers 201 /api/v1/runs -X POST -H 'Content-Type: application/x-tar' --data-binary "@$work/run.tar"
check "and listed" answers 200 /api/v1/runs/first
check "a change from a page of this site is accepted" answers 200 /api/v1/runs/first/tags -H 'Origin: https://inferprof.example.org' -d '{"add": ["a"]}'
check "a change from a page of another site is refused" answers 403 /api/v1/runs/first/tags -H 'Origin: https://evil.example' -d '{"add": ["b"]}'

if command -v systemd-analyze >/dev/null; then
    sed "s,/usr/local/bin/inferprof,$INFERPROF," docs/examples/serve/inferprof.service >"$work/inferprof.service"
    run systemd-analyze verify "$work/inferprof.service"
    check "systemd accepts the unit" sh -c "[ $status -eq 0 ] && ! grep inferprof.service '$work/err'"
else
    skip "systemd accepts the unit" "systemd-analyze is not installed"
fi
