# Two images: `--target sidecar` for hosts with inference servers, `--target monitor` for history, API and page.
# An image of another name, with Python 3.11 or newer and its venv module: --build-arg BASE_IMAGE=…
# A package index of one's own: --secret id=pip.conf,src=FILE, and --secret id=ca.pem,src=FILE for `cert = /run/secrets/ca.pem`.
ARG BASE_IMAGE=python:3.13.9-slim-bookworm

FROM ${BASE_IMAGE} AS base
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PATH=/opt/inferwatch/bin:$PATH
RUN groupadd --gid 10001 inferwatch \
    && useradd --uid 10001 --gid 10001 --create-home --home-dir /var/lib/inferwatch --shell /usr/sbin/nologin inferwatch \
    && mkdir /etc/inferwatch

# pip and hatchling stay here: the environments are made without, and copied.
FROM base AS build
WORKDIR /build
RUN python3 -m venv /tools && python3 -m venv --without-pip /opt/inferwatch
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
COPY requirements/build.txt requirements/sidecar.txt requirements/monitor.txt requirements/
RUN --mount=type=secret,id=pip.conf,target=/etc/pip.conf --mount=type=secret,id=ca.pem \
    /tools/bin/pip install --quiet --require-hashes --only-binary :all: --requirement requirements/build.txt \
    && /tools/bin/pip --python /opt/inferwatch/bin/python install --quiet --require-hashes --only-binary :all: \
       --requirement requirements/sidecar.txt
# All that .dockerignore lets in.
COPY . .
RUN /tools/bin/pip wheel --quiet --no-deps --no-build-isolation --no-index --wheel-dir dist . \
    && /tools/bin/pip --python /opt/inferwatch/bin/python install --quiet --no-deps --no-index dist/*.whl

FROM build AS sidecar-files
RUN cd /opt/inferwatch/lib/python3*/site-packages && rm -r alerts monitor dashboards demo

FROM build AS monitor-files
RUN --mount=type=secret,id=pip.conf,target=/etc/pip.conf --mount=type=secret,id=ca.pem \
    /tools/bin/pip --python /opt/inferwatch/bin/python install --quiet --require-hashes --only-binary :all: \
    --requirement requirements/monitor.txt \
    # where the monitor looks for them: beside its package
    && cp -r migrations /opt/inferwatch/lib/python3*/site-packages/

FROM base AS sidecar
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="inferwatch sidecar" \
      org.opencontainers.image.description="Reads the inference servers and GPUs of a host, for Prometheus" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=sidecar-files /opt/inferwatch /opt/inferwatch
WORKDIR /etc/inferwatch
USER 10001:10001
EXPOSE 9840
ENTRYPOINT ["inferwatch"]
CMD ["exporter", "--listen", "0.0.0.0:9840"]

FROM base AS monitor
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="inferwatch monitor" \
      org.opencontainers.image.description="History, objectives, API and page over inference servers" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
ENV XDG_STATE_HOME=/var/lib
COPY --from=monitor-files /opt/inferwatch /opt/inferwatch
WORKDIR /etc/inferwatch
USER 10001:10001
EXPOSE 9840
ENTRYPOINT ["inferwatch"]
CMD ["serve", "--listen", "0.0.0.0:9840"]
