# The sidecar's image: `make image`; what is in it and what it needs: docs/reference/image.md.
# One base for both stages, with which the second stage has nothing to download. The digest is that of the index of all
# platforms: amd64 and arm64 are built with it alike.
ARG BASE=docker.io/library/python:3.13.15-slim-trixie@sha256:9d2e5553305c7c7b0097999bb17187c69b921ccd6bc9d40e4bb5ebe652c00285

FROM ${BASE} AS build
RUN apt-get update \
 && apt-get install --yes --no-install-recommends binutils gcc libc6-dev \
 && rm -rf /var/lib/apt/lists/*
RUN python -m venv /build && python -m venv --without-pip /opt/kafka-sidecar
WORKDIR /source
COPY requirements-image.lock requirements-run.lock ./
RUN /build/bin/pip install --quiet --no-cache-dir --require-hashes -r requirements-image.lock \
 && /build/bin/pip --python /opt/kafka-sidecar/bin/python install --quiet --no-cache-dir --only-binary :all: \
    --require-hashes -r requirements-run.lock
COPY . .
ARG SOURCE=
RUN KAFKA_SIDECAR_COMPILE=yes KAFKA_SIDECAR_URL=${SOURCE} \
    /build/bin/pip wheel --quiet --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheel . \
 && /build/bin/pip --python /opt/kafka-sidecar/bin/python install --quiet --no-cache-dir --no-index --no-deps /wheel/*.whl
# What debuggers read is two fifths of the libraries. Then the list of what is inside, and the proof that it is compiled.
RUN find /opt/kafka-sidecar -name '*.so' -exec strip --strip-unneeded {} + \
 && /build/bin/cyclonedx-py environment --spec-version 1.6 --output-reproducible \
    --output-file /opt/kafka-sidecar/sbom.cdx.json /opt/kafka-sidecar/bin/python \
 && /opt/kafka-sidecar/bin/kafka-sidecar version | grep --fixed-strings '(compiled)'

FROM ${BASE}
# The base has no bytecode of Python's own modules, and with a read-only root none is written: half of the start.
RUN python -m compileall -q -x 'site-packages|/(ensurepip|idlelib|pydoc_data|tkinter|turtledemo)/' \
    "$(python -c 'import os; print(os.path.dirname(os.__file__))')"
COPY --from=build /opt/kafka-sidecar /opt/kafka-sidecar
ENV PATH=/opt/kafka-sidecar/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1
ARG SOURCE=
ARG VERSION=
ARG REVISION=
ARG CREATED=
LABEL org.opencontainers.image.title="kafka-sidecar" \
      org.opencontainers.image.description="A sidecar proxy that speaks the Kafka wire protocol" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"
USER 10001:10001
ENTRYPOINT ["kafka-sidecar"]
CMD ["run"]
