# The image of docs/how-to/kubernetes.md. The first stage has a C compiler; the second has what runs, and no more.
FROM python:3.13 AS build
COPY . /source
RUN python -m venv /opt/kafka-sidecar \
 && KAFKA_SIDECAR_COMPILE=yes /opt/kafka-sidecar/bin/pip install --no-cache-dir /source

FROM python:3.13-slim
COPY --from=build /opt/kafka-sidecar /opt/kafka-sidecar
ENV PATH=/opt/kafka-sidecar/bin:$PATH
USER 10001
ENTRYPOINT ["kafka-sidecar"]
