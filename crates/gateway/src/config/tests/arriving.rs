//! Every setting arrives, from the file and from the overrides.

use super::*;

#[cfg(feature = "nats")]
#[test]
fn every_setting_arrives() {
    let file = r#"
        listen = "127.0.0.2:1"
        data = "/data"
        dev = true
        plaintext = true
        store = "nats://alice:secret@one.example,tls://two.example:4333"
        [framed]
        listen = "127.0.0.3:2"
        [tls]
        cert = "/cert"
        key = "/key"
        [nats]
        name = "other"
        credentials = "/creds"
        ca = "/ca"
        cert = "/log-cert"
        key = "/log-key"
        replicas = 5
        topics = 21
        shards = 7
        [sqlite]
        durability = "os"
        [retention]
        age = "1d"
        count = 2
        [limits]
        message = 3
        answer = 18
        depth = 4
        recipients = 5
        rate = 6
        burst = 7
        participants = 8
        ghosts = 32
        bridge_rate = 33
        bridge_byte_rate = "34KiB"
        connections_per_participant = 9
        connections_per_address = 10
        read_rate = 25
        bodies = 26
        bodies_per_sender = 27
        body_bytes = 28
        body_bytes_per_sender = 29
        byte_rate = "11KiB"
        byte_burst = "12KiB"
        topic_byte_rate = "13KiB"
        gateway_byte_rate = "14KiB"
        topic_stored = "18KiB"
        participant_stored = "19KiB"
        context_stored = "20KiB"
        gateway_stored = "21KiB"
        file = "22KiB"
        topic_files = "23KiB"
        files = "24KiB"
        disk_reserve = "17KiB"
        rooms = 15
        rooms_per_participant = 16
        [memory]
        per_room = 11
        total = 12
        [times]
        write_deadline = "13s"
        ping_interval = "14s"
        silence_limit = "15s"
        crash_grace = "16s"
        drain_deadline = "17s"
        heartbeat = "18s"
        [http]
        origins = ["https://nineteen.example"]
        hosts = ["twenty.example"]
        public_url = "https://public.example"
        [auth]
        jwks = "/keys"
        jwks_max_age = "31s"
        authorization_servers = ["https://id.example"]
        resource = "https://resource.example"
        topics_claim = "topics"
        permissions_claim = "/a/b"
        create_topics = "operator"
        max_token_lifetime = "30s"
        namespaces = ["matrix:*=bridge:matrix"]
        integrity_keys = ["robots=11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"]
        [ui]
        enabled = false
        allow = ["rover/*"]
        [log]
        format = "json"
        filter = "debug"
        [audit]
        enabled = false
        file = "/audit"
        max_size = 22
        max_age = "23s"
        max_files = 24
    "#;
    for Setting { key, .. } in SETTINGS.iter() {
        let name = key.rsplit('.').next().expect("a name");
        assert!(file.contains(&format!(" {name} = ")), "`{key}` is not tried here");
    }
    let config = format!("{:#?}", load(file, "").expect("a configuration"));
    // The rest is no setting.
    let (settings, _) = config.split_once("    history_off: ").expect("the first of the others");
    insta::assert_snapshot!(settings, @r#"
    Config {
        listen: 127.0.0.2:1,
        data: "/data",
        dev: true,
        plaintext: true,
        store: Nats(
            [
                "one.example:4222",
                "two.example:4333",
            ],
        ),
        framed: FramedSettings {
            listen: Some(
                127.0.0.3:2,
            ),
        },
        tls: TlsSettings {
            cert: Some(
                "/cert",
            ),
            key: Some(
                "/key",
            ),
        },
        http: HttpSettings {
            origins: [
                "https://nineteen.example",
            ],
            hosts: [
                "twenty.example",
            ],
            public_url: Some(
                "https://public.example",
            ),
        },
        auth: AuthSettings {
            jwks: Some(
                JwksSource(/keys),
            ),
            jwks_max_age: 31s,
            authorization_servers: [
                "https://id.example",
            ],
            resource: Some(
                "https://resource.example",
            ),
            topics_claim: "topics",
            permissions_claim: "/a/b",
            create_topics: Operator,
            max_token_lifetime: 30s,
            namespaces: [
                (
                    Namespace(
                        "matrix:",
                    ),
                    "bridge:matrix",
                ),
            ],
            integrity_keys: [
                (
                    "robots",
                    Confirmation(11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo),
                ),
            ],
        },
        ui: UiSettings {
            enabled: false,
            allow: [
                "rover/*",
            ],
        },
        sqlite: SqliteSettings {
            durability: Os,
        },
        nats: NatsSettings {
            name: "other",
            credentials: Some(
                "/creds",
            ),
            ca: Some(
                "/ca",
            ),
            cert: Some(
                "/log-cert",
            ),
            key: Some(
                "/log-key",
            ),
            replicas: Some(
                5,
            ),
            topics: 21,
            shards: 7,
        },
        retention: RetentionSettings {
            age: Some(
                86400s,
            ),
            count: Some(
                2,
            ),
        },
        limits: LimitSettings {
            message: 3,
            answer: 18,
            depth: 4,
            recipients: 5,
            rate: 6,
            burst: 7,
            byte_rate: 11264,
            byte_burst: 12288,
            topic_byte_rate: 13312,
            gateway_byte_rate: 14336,
            topic_stored: 18432,
            participant_stored: 19456,
            context_stored: 20480,
            gateway_stored: 21504,
            file: 22528,
            topic_files: 23552,
            files: 24576,
            disk_reserve: 17408,
            rooms: 15,
            rooms_per_participant: 16,
            participants: 8,
            ghosts: 32,
            bridge_rate: 33,
            bridge_byte_rate: 34816,
            connections_per_participant: 9,
            connections_per_address: 10,
            read_rate: 25,
            bodies: 26,
            bodies_per_sender: 27,
            body_bytes: 28,
            body_bytes_per_sender: 29,
        },
        memory: MemorySettings {
            per_room: 11,
            total: 12,
        },
        times: TimeSettings {
            write_deadline: 13s,
            ping_interval: 14s,
            silence_limit: 15s,
            crash_grace: 16s,
            drain_deadline: 17s,
            heartbeat: 18s,
        },
        log: LogSettings {
            format: Json,
            filter: "debug",
        },
        audit: AuditSettings {
            enabled: false,
            file: Some(
                "/audit",
            ),
            max_size: 22,
            max_age: 23s,
            max_files: 24,
        },
    "#);
}
