# The server's image. `make docker_build` builds it; deploy/container/entrypoint.sh says what it
# runs; docs/guide/deployment.md shows its use.
#
# BASE is any Debian or Ubuntu with Python 3.10 or newer and its venv module. Name it by digest
# (python@sha256:...) for a build that is the same each time; the packages are locked by hash.
ARG BASE=python:3.11-slim-bookworm
# `tensorflow` puts TensorFlow beside it, for signatures that nothing else runs.
ARG EXTRAS=

FROM ${BASE} AS build
ARG EXTRAS
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /build
COPY deploy/container/*requirements.txt ./
# Without dependencies that are not named: openvino-telemetry, which reports usage and writes into the
# home directory. OpenVINO does without it.
RUN python3 -m venv tools \
    && tools/bin/pip install --only-binary :all: --require-hashes -r build-requirements.txt \
    && python3 -m venv --without-pip /opt/ie_serving \
    && tools/bin/pip --python /opt/ie_serving/bin/python install \
        --only-binary :all: --require-hashes --no-deps -r "${EXTRAS:+$EXTRAS-}requirements.txt"
COPY pyproject.toml setup.py LICENSE ./
COPY ie_serving ie_serving
# Left out of the image: sources in C, stubs of types, test suites, and descriptions of AWS services
# that lead neither to an object nor to a credential.
RUN tools/bin/pip wheel --no-build-isolation --no-deps --wheel-dir dist . \
    && tools/bin/pip --python /opt/ie_serving/bin/python install --no-deps dist/*.whl \
    && find /opt/ie_serving -depth -type d \( -name tests -o -path '*/openvino/include' \) \
        -exec rm -r {} + \
    && find /opt/ie_serving -type f \( -name '*.[ach]' -o -name '*.py[ix]' -o -name '*.pxd' \) -delete \
    && find /opt/ie_serving/lib/python3*/site-packages/botocore/data -mindepth 1 -maxdepth 1 -type d \
        ! -name s3 ! -name sts ! -name sso ! -name sso-oidc ! -name signin -exec rm -r {} +

FROM ${BASE}
LABEL org.opencontainers.image.title="ie_serving" \
      org.opencontainers.image.description="The TensorFlow Serving API, gRPC and REST, on OpenVINO" \
      org.opencontainers.image.licenses="Apache-2.0"
# curl: health checks of others' compose files use it. A build on top of this image, and the start of
# a container, are root's, as with the images that it replaces; entrypoint.sh gives root up.
# Any user may keep copies in the cache, and the group 0 may write models: platforms choose ids of
# their own. ovms is the user of OpenVINO Model Server's image. Scripts for the image of 2020 source
# `activate`.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends curl \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* \
    && groupadd --gid 10001 ie_serving \
    && useradd --uid 10001 --gid 10001 --no-log-init --create-home ie_serving \
    && groupadd --gid 5000 ovms \
    && useradd --uid 5000 --gid 5000 --no-log-init --create-home ovms \
    && install -d -m 1777 /var/cache/ie_serving \
    && install -d -m 775 -o 10001 -g 0 /models \
    && install -d /opt/ml /ie-serving-py/.venv/bin /ovms/bin \
    && touch /ie-serving-py/.venv/bin/activate \
    && ln -s /opt/ie_serving/bin/entrypoint.sh /ie-serving-py/start_server.sh \
    && ln -s /opt/ie_serving/bin/entrypoint.sh /ovms/bin/ovms \
    && ln -s /opt/ie_serving/bin/entrypoint.sh /usr/bin/ovms \
    && ln -s /opt/ie_serving/bin/tensorflow_model_server /usr/bin/tensorflow_model_server
COPY --from=build /opt/ie_serving /opt/ie_serving
COPY deploy/container/entrypoint.sh deploy/container/healthcheck.py /opt/ie_serving/bin/
# A file of its own: others overwrite it.
COPY deploy/container/entrypoint.sh /usr/bin/tf_serving_entrypoint.sh
ENV PATH=$PATH:/opt/ie_serving/bin PYTHONDONTWRITEBYTECODE=1 XDG_CACHE_HOME=/var/cache \
    IE_SERVING_USER=10001
EXPOSE 8500 8501
# Ports open when every model has been loaded, which may take minutes.
HEALTHCHECK --interval=10s --timeout=10s --start-period=10m CMD ["healthcheck.py"]
ENTRYPOINT ["/usr/bin/tf_serving_entrypoint.sh"]
# Not the one of BASE.
CMD []
