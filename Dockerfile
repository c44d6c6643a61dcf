# One Dockerfile for both images: `sqlstreams` (the operator, its workers and the
# command line) and `payments-handler` (the demo's handler).
#
#   docker build -t sqlstreams:dev .
#
# Where no Rust image can be pulled, compile on a Debian 12 machine first
# (target/release) and let any Debian 12 image collect the libraries:
#
#   --build-arg BINARIES=prebuilt --build-arg BUILDER_IMAGE=debian:bookworm-slim
#
# That is an argument rather than a stage of its own, because some builders
# fetch the images of every stage, also of those that are not used.
ARG BUILDER_IMAGE=rust:1-bookworm

FROM ${BUILDER_IMAGE} AS build
ARG BINARIES=source
COPY . /src

# Compiles, then lays out each product's root file system: the binary, the
# libraries that it names, and what a program without root needs around it. A
# binary that was not built is left out, and only its own image fails then. One
# step, because some builders copy the whole image for each.
RUN set -eu; cd /src; \
    test "$BINARIES" = prebuilt \
      || cargo build --release --locked --bin sqlstreams --example payments-handler; \
    test -e /etc/ssl/certs/ca-certificates.crt \
      || { apt-get update && apt-get install -y --no-install-recommends ca-certificates; }; \
    collect() { \
      test -e "$1" || return 0; \
      root="/out/$2"; \
      mkdir -p "$root/usr/local/bin" "$root/etc/ssl/certs" "$root/tmp"; \
      chmod 1777 "$root/tmp"; \
      install -m 755 "$1" "$root/usr/local/bin/$2"; \
      ldd "$1" > /tmp/libraries; \
      if grep 'not found' /tmp/libraries; then exit 1; fi; \
      grep -o '/[^ ]*' /tmp/libraries | xargs -r cp -L --parents -t "$root"; \
      cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"; \
      echo 'nonroot:x:65532:65532:nonroot:/:/sbin/nologin' > "$root/etc/passwd"; \
      echo 'nonroot:x:65532:' > "$root/etc/group"; \
      echo 'hosts: files dns' > "$root/etc/nsswitch.conf"; \
    }; \
    collect target/release/sqlstreams sqlstreams; \
    collect target/release/examples/payments-handler payments-handler

FROM scratch AS sqlstreams
COPY --from=build /out/sqlstreams/ /
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/sqlstreams"]

FROM scratch AS payments-handler
COPY --from=build /out/payments-handler/ /
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/payments-handler"]

# What is built when no target is named.
FROM sqlstreams
