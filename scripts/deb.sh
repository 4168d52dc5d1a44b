#!/bin/sh
# Builds build/dist/inferprof_VERSION_ARCH.deb from `make install`; prints its path. Environment: VERSION.
# dpkg's own tools are used without debhelper: there is one package, and `make install` already installs every file.
set -eu
arch=$(dpkg --print-architecture)
out=$PWD/build/dist
stage=$PWD/build/deb
root=$stage/root
rm -rf "$stage"
mkdir -p "$root/DEBIAN" "$root/usr/share/doc/inferprof" "$root/usr/share/lintian/overrides" "$stage/debian" "$out"
make -s --no-print-directory install PREFIX=/usr DESTDIR="$root" >/dev/null
# The unit is installed but not enabled: `systemctl enable --now inferprof` starts the server.
mkdir -p "$root/usr/lib/systemd/system"
sed -e 1d -e 's|/usr/local/bin/|/usr/bin/|' docs/examples/serve/inferprof.service >"$root/usr/lib/systemd/system/inferprof.service"
strip --strip-unneeded --remove-section=.comment --remove-section=.note "$root/usr/bin/inferprof" "$root"/usr/lib/inferprof/inferprof-counters \
    "$root"/usr/lib/inferprof/*.so

date=$(date -R -u -d "@$(git log -1 --format=%ct 2>/dev/null || echo 0)")
maintainer='inferprof maintainers <maintainers@users.noreply.invalid>'
cat >"$root/usr/share/doc/inferprof/copyright" <<END
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: inferprof

Files: *
Copyright: 2026 inferprof contributors
License: Apache-2.0
 On Debian systems, the full text of the Apache License, version 2.0, is in
 /usr/share/common-licenses/Apache-2.0.
END
printf 'inferprof (%s) unstable; urgency=medium\n\n  * Built from source; see the CHANGELOG of the project.\n\n -- %s  %s\n' \
    "$VERSION" "$maintainer" "$date" | gzip -n9 >"$root/usr/share/doc/inferprof/changelog.gz"
# libzstd is linked into the collector and the sampler as an archive on purpose: a library that is loaded into other
# people's programs must not load further shared libraries.
cat >"$root/usr/share/lintian/overrides/inferprof" <<END
inferprof: embedded-library *libzstd*
END

printf 'Source: inferprof\n\nPackage: inferprof\nArchitecture: any\n' >"$stage/debian/control"
depends=$(cd "$stage" && dpkg-shlibdeps -O --ignore-missing-info "$root/usr/bin/inferprof" "$root/usr/lib/inferprof/inferprof-counters" \
    "$root"/usr/lib/inferprof/*.so 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
cat >"$root/DEBIAN/control" <<END
Package: inferprof
Version: $VERSION
Architecture: $arch
Maintainer: $maintainer
Installed-Size: $(du -sk "$root" | cut -f 1)
Depends: $depends
Recommends: libmicrohttpd12, libpq5, libcurl3-gnutls
Suggests: python3
Section: devel
Priority: optional
Description: profiler for LLM inference
 Runs a large language model, watches a program that runs one, or reads a
 recorded trace, and says how long each stage takes, how far it is from what
 the hardware allows, and what to change first, in milliseconds saved.
END
(cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums)
find "$root" -type d -exec chmod 755 {} +
deb=$out/inferprof_${VERSION}_$arch.deb
dpkg-deb --root-owner-group --build "$root" "$deb" >/dev/null
echo "build/dist/$(basename "$deb")"
