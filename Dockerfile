# The command, with decryption; with --build-arg JAVA=1 also with Java and PySpark, for --engine spark.
# Data is mounted at /data; the ledger's folder must outlive the container:
#   docker run --rm -v "$PWD:/data" -v attributary:/state attributary run spec.toml
ARG JAVA=
FROM python:3.13-slim AS build
ARG JAVA
COPY . /source
RUN python -m venv /attributary && \
    /attributary/bin/python -m pip install --no-cache-dir -c /source/constraints.txt "/source[decrypt${JAVA:+,spark}]"

FROM python:3.13-slim
ARG JAVA
RUN if [ -n "$JAVA" ]; then \
        apt-get update && apt-get install -y --no-install-recommends default-jre-headless && rm -rf /var/lib/apt/lists/*; \
    fi
COPY --from=build /attributary /attributary
RUN useradd --create-home attributary && mkdir /state /data && chown attributary /state /data
ENV PATH=/attributary/bin:$PATH XDG_STATE_HOME=/state
USER attributary
WORKDIR /data
VOLUME /state
ENTRYPOINT ["attributary"]
