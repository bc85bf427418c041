# The command, with decryption. Data is mounted at /data; the ledger's folder must outlive the container:
#   docker run --rm -v "$PWD:/data" -v attributary:/state attributary run spec.toml
FROM python:3.13-slim AS build
COPY . /source
RUN python -m venv /attributary && \
    /attributary/bin/python -m pip install --no-cache-dir -c /source/constraints.txt '/source[decrypt]'

FROM python:3.13-slim
COPY --from=build /attributary /attributary
RUN useradd --create-home attributary && mkdir /state /data && chown attributary /state /data
ENV PATH=/attributary/bin:$PATH XDG_STATE_HOME=/state
USER attributary
WORKDIR /data
VOLUME /state
ENTRYPOINT ["attributary"]
