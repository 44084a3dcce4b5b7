# The image of the service (06 section 8.1). Build: docker build -t manychat-agent:0.1.0 .
#
# Two stages: the first compiles, the second holds the binary, ffmpeg, CA certificates and a small init, and nothing of
# the build. Tenant files are mounted at /app/config, read-only. The root file system may be read-only too; media needs
# a writable /tmp. Another command is given as arguments: docker run … manychat-agent:0.1.0 agent worker

FROM rust:1.95-slim-bookworm AS build
WORKDIR /build
COPY . .
# Optimised, without the paths of this stage and without the switches of tests that end the program on purpose (ARC-60).
RUN scripts/build-dist && scripts/no-crash-points target/dist/agent

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates ffmpeg tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --user-group --no-create-home --home-dir /app --shell /usr/sbin/nologin agent \
    && mkdir -p /app/config
COPY --from=build /build/target/dist/agent /usr/local/bin/agent
WORKDIR /app
USER 10001:10001
ENV NODE_ENV=production
EXPOSE 3000
# The binary asks itself, so no shell and no curl is needed.
HEALTHCHECK --interval=30s --timeout=3s --start-period=10s --retries=3 CMD ["agent", "health"]
# tini forwards signals and reaps children such as ffmpeg.
ENTRYPOINT ["/usr/bin/tini", "--"]
CMD ["agent", "serve"]
