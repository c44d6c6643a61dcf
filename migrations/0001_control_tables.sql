-- The control tables of one sqlstreams installation. Every migration runs with search_path set
-- to the schema of the installation, so no name here is qualified.

CREATE TABLE stream_config (
    id                          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name                        text NOT NULL UNIQUE CHECK (name <> ''),
    uid                         uuid NOT NULL UNIQUE DEFAULT gen_random_uuid(),
    owner_uid                   uuid,
    owner_ref                   text,
    cluster_id                  text,
    partition_size              bigint NOT NULL CHECK (partition_size > 0),
    retention_ttl_seconds       bigint CHECK (retention_ttl_seconds > 0),
    drop_unconsumed             boolean NOT NULL DEFAULT false,
    idempotency_key_ttl_seconds bigint NOT NULL DEFAULT 86400 CHECK (idempotency_key_ttl_seconds > 0),
    retention_report            jsonb,
    created_at                  timestamptz NOT NULL DEFAULT now(),
    CHECK ((owner_uid IS NULL) = (owner_ref IS NULL AND cluster_id IS NULL))
);
COMMENT ON TABLE stream_config IS 'One row per stream. The tables of a stream carry its id: message_log_<id> and so on.';
COMMENT ON COLUMN stream_config.owner_uid IS 'UID of the Stream resource that owns the tables; null while nobody does.';
COMMENT ON COLUMN stream_config.retention_report IS 'What the last retention run dropped and what kept it from dropping more.';
COMMENT ON COLUMN stream_config.retention_ttl_seconds IS 'Age at which messages may be dropped; null keeps them for ever.';

CREATE TABLE consumer_group_config (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream_id      bigint NOT NULL REFERENCES stream_config (id),
    name           text NOT NULL CHECK (name <> ''),
    owner_uid      uuid,
    owner_ref      text,
    cluster_id     text,
    start_position bigint NOT NULL DEFAULT 0 CHECK (start_position >= 0),
    settings       jsonb NOT NULL DEFAULT '{}',
    created_at     timestamptz NOT NULL DEFAULT now(),
    UNIQUE (stream_id, name),
    CHECK ((owner_uid IS NULL) = (owner_ref IS NULL AND cluster_id IS NULL))
);
COMMENT ON COLUMN consumer_group_config.start_position IS
    'The group is given messages with a greater id. Of account only while its claims say nothing: before the first, and in a database restored from a dump that missed them.';

-- A running worker process. Its claims are its own until lease_until; whoever finds the lease
-- expired sets fenced_at and takes them over.
CREATE TABLE worker_instance (
    id                uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    stream_id         bigint NOT NULL,
    consumer_group_id bigint NOT NULL,
    name              text NOT NULL,
    lease_seconds     double precision NOT NULL CHECK (lease_seconds > 0),
    lease_until       timestamptz NOT NULL,
    started_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    fenced_at         timestamptz
) WITH (fillfactor = 50);
CREATE INDEX worker_instance_live ON worker_instance (consumer_group_id) WHERE fenced_at IS NULL;

-- Written in the transaction that makes a message dead for a group.
CREATE TABLE dead_letter (
    id                uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    stream_id         bigint NOT NULL,
    consumer_group_id bigint NOT NULL,
    message_id        bigint NOT NULL,
    run               integer NOT NULL,
    created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    destination       text,
    archive_key       text,
    archive_checksum  text,
    redriven_at       timestamptz,
    replayed_at       timestamptz,
    UNIQUE (stream_id, message_id, consumer_group_id, run)
);
CREATE INDEX dead_letter_by_group ON dead_letter (consumer_group_id, created_at DESC, id);

-- Counters as a sum of signed changes: a counter is exact in every snapshot and no two writers
-- ever wait for the same row. The operator folds the rows together from time to time.
CREATE TABLE statistics_delta (
    stream_id         bigint NOT NULL,
    consumer_group_id bigint NOT NULL,
    counter           text NOT NULL,
    delta             bigint NOT NULL
);
