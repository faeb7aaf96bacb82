//! The contract of [`FileStore`] as a suite that every engine runs; the numbers are those of its documentation.

use bytes::Bytes;
use futures_util::FutureExt;
use salon_protocol::{ParticipantId, Timestamp};

use super::checks::{all, within};
use super::topic;
use crate::FileStore;
use crate::files::{FILE_CHUNK_BYTES, FileError, FileId, FileQuotas, FileScope, NewFile, StoredFile};

/// An engine as the suite needs it.
pub trait FileEngine {
    /// Its store.
    type Store: FileStore;

    /// A new store with nothing in it.
    fn create(&self, quotas: FileQuotas) -> impl Future<Output = Self::Store>;

    /// The same store after its process ended and began again. What was dropped before may be removed by then.
    fn restart(&self, store: Self::Store) -> impl Future<Output = Self::Store>;
}

/// Runs the whole suite; panics at the first broken promise.
pub async fn run(engine: &impl FileEngine) {
    all(vec![
        within("1: a file is there once it is finished", finished_files_are_there(engine)).boxed_local(),
        within("2: a file is its topic's, byte for byte", files_are_their_topics(engine)).boxed_local(),
        within("3: quotas are kept", quotas_are_kept(engine)).boxed_local(),
        within("3: an author has its share", an_author_has_its_share(engine)).boxed_local(),
        within("4: what is removed is gone", what_is_removed_is_gone(engine)).boxed_local(),
        within("5: all of a topic is removed", all_of_a_topic_is_removed(engine)).boxed_local(),
    ])
    .await;
}

fn new_file(name: &str, number: u8) -> NewFile {
    NewFile {
        id: FileId::from_bytes([number; 16]),
        topic: topic("room:a"),
        name: name.parse().expect("a name"),
        mime_type: "text/plain".into(),
        author: ParticipantId::new("alice").expect("an id"),
        created: Timestamp(1_000),
    }
}

async fn put(store: &impl FileStore, file: NewFile, bytes: &[u8]) -> Result<StoredFile, FileError> {
    let mut upload = store.begin(file).await?;
    for piece in bytes.chunks(100_000) {
        upload.write(Bytes::copy_from_slice(piece)).await?;
    }
    upload.finish("00ff".repeat(16)).await
}

async fn whole(store: &impl FileStore, file: &NewFile) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let chunk = store.read(&file.topic, &file.id, bytes.len() as u64).await.expect("read");
        if chunk.is_empty() {
            return bytes;
        }
        assert!(chunk.len() <= FILE_CHUNK_BYTES);
        bytes.extend_from_slice(&chunk);
    }
}

/// Bytes that are nowhere the same.
fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8 ^ (at / 251) as u8).collect()
}

async fn finished_files_are_there(engine: &impl FileEngine) {
    let store = engine.create(FileQuotas::default()).await;
    let file = new_file("plan.txt", 1);
    let mut upload = store.begin(file.clone()).await.expect("begun");
    upload.write(Bytes::from_static(b"half")).await.expect("written");
    assert_eq!(store.find(&file.topic, &file.id).await, Ok(None), "not before it is whole");
    let stored = upload.finish("ab".repeat(32)).await.expect("finished");
    assert_eq!(stored, StoredFile { file: file.clone(), size: 4, sha256: "ab".repeat(32) });
    assert_eq!(store.find(&file.topic, &file.id).await, Ok(Some(stored)));
    let dropped = new_file("dropped.txt", 2);
    let mut upload = store.begin(dropped.clone()).await.expect("begun");
    upload.write(Bytes::from(content(FILE_CHUNK_BYTES + 1))).await.expect("written");
    drop(upload);
    let store = engine.restart(store).await;
    assert_eq!(store.find(&dropped.topic, &dropped.id).await, Ok(None));
    let names: Vec<_> =
        store.list().await.expect("listed").into_iter().map(|stored| stored.file.name.to_string()).collect();
    assert_eq!(names, ["plan.txt"]);
    assert_eq!(whole(&store, &file).await, b"half");
}

async fn files_are_their_topics(engine: &impl FileEngine) {
    let store = engine.create(FileQuotas::default()).await;
    for (number, length) in [(1, 0), (2, 1), (3, FILE_CHUNK_BYTES), (4, 2 * FILE_CHUNK_BYTES + 77)] {
        let (file, bytes) = (new_file("Übersicht \"2\".bin", number), content(length));
        let stored = put(&store, file.clone(), &bytes).await.expect("stored");
        assert_eq!(stored.size, length as u64);
        assert!(whole(&store, &file).await == bytes, "{length} bytes");
        let from = length as u64 / 2;
        let part = store.read(&file.topic, &file.id, from).await.expect("read");
        assert!(bytes[length / 2..].starts_with(&part), "from the middle of {length} bytes");
        let elsewhere = topic("room:b");
        assert_eq!(store.find(&elsewhere, &file.id).await, Ok(None));
        assert_eq!(store.read(&elsewhere, &file.id, 0).await, Ok(Bytes::new()));
        store.remove(&elsewhere, &file.id).await.expect("nothing to remove");
        assert!(store.find(&file.topic, &file.id).await.expect("looked up").is_some());
    }
}

async fn quotas_are_kept(engine: &impl FileEngine) {
    let store = engine.create(FileQuotas { topic: 1000, total: 1500, ..FileQuotas::default() }).await;
    put(&store, new_file("a", 1), &content(800)).await.expect("stored");
    let of_topic = Err(FileError::Quota { scope: FileScope::Topic, limit: 1000 });
    assert_eq!(put(&store, new_file("b", 2), &content(201)).await, of_topic);
    let other = NewFile { topic: topic("room:b"), ..new_file("c", 3) };
    let of_all = Err(FileError::Quota { scope: FileScope::Gateway, limit: 1500 });
    assert_eq!(put(&store, other.clone(), &content(701)).await, of_all);
    let store = engine.restart(store).await;
    assert_eq!(put(&store, new_file("b", 4), &content(201)).await, of_topic, "after a restart too");
    store.remove(&topic("room:a"), &new_file("a", 1).id).await.expect("removed");
    put(&store, other, &content(701)).await.expect("there is room again");
}

async fn an_author_has_its_share(engine: &impl FileEngine) {
    let store = engine.create(FileQuotas { author_files: 2, ..FileQuotas::default() }).await;
    let elsewhere = NewFile { topic: topic("room:b"), ..new_file("b", 2) };
    put(&store, new_file("a", 1), b"one").await.expect("stored");
    // An upload counts as well, wherever it is.
    let upload = store.begin(elsewhere.clone()).await.expect("begun");
    let too_many = FileError::TooMany { scope: FileScope::Author, limit: 2 };
    assert_eq!(put(&store, new_file("c", 3), b"").await, Err(too_many.clone()));
    upload.finish("00ff".repeat(16)).await.expect("stored");
    let store = engine.restart(store).await;
    assert_eq!(put(&store, new_file("c", 4), b"").await, Err(too_many.clone()), "after a restart too");
    let bob = NewFile { author: ParticipantId::new("bob").expect("an id"), ..new_file("d", 5) };
    put(&store, bob, b"two").await.expect("others have their own share");
    store.remove(&topic("room:a"), &new_file("a", 1).id).await.expect("removed");
    put(&store, new_file("e", 6), b"").await.expect("what was removed makes room");
    assert_eq!(put(&store, new_file("f", 7), b"").await, Err(too_many));
    store.remove_topic(&topic("room:a")).await.expect("removed");
    put(&store, new_file("g", 8), b"").await.expect("and so does all of a topic");
    assert!(store.find(&elsewhere.topic, &elsewhere.id).await.expect("looked up").is_some());
}

async fn what_is_removed_is_gone(engine: &impl FileEngine) {
    let store = engine.create(FileQuotas::default()).await;
    let file = new_file("a", 1);
    put(&store, file.clone(), &content(300_000)).await.expect("stored");
    store.remove(&file.topic, &file.id).await.expect("removed");
    let store = engine.restart(store).await;
    assert_eq!(store.find(&file.topic, &file.id).await, Ok(None));
    assert_eq!(whole(&store, &file).await, b"");
    assert_eq!(store.list().await, Ok(Vec::new()));
}

async fn all_of_a_topic_is_removed(engine: &impl FileEngine) {
    let store = engine.create(FileQuotas { topic: 1000, total: 2000, ..FileQuotas::default() }).await;
    let other = NewFile { topic: topic("room:b"), ..new_file("other", 9) };
    put(&store, other.clone(), &content(10)).await.expect("stored");
    put(&store, new_file("a", 1), &content(400)).await.expect("stored");
    put(&store, new_file("b", 2), &content(400)).await.expect("stored");
    let (under_way, next) = (new_file("c", 3), new_file("d", 4));
    let mut upload = store.begin(under_way.clone()).await.expect("begun");
    upload.write(Bytes::from(content(100))).await.expect("written");
    store.remove_topic(&topic("room:a")).await.expect("removed");
    // Begun after it, so that what the removed upload has stored could be taken for its own.
    put(&store, next.clone(), b"next").await.expect("stored");
    assert_eq!(upload.finish("00ff".repeat(16)).await, Err(FileError::Removed));
    assert_eq!(whole(&store, &next).await, b"next");
    store.remove_topic(&topic("room:a")).await.expect("removed");
    for number in 1..=4 {
        assert_eq!(store.find(&topic("room:a"), &new_file("x", number).id).await, Ok(None));
    }
    assert_eq!(whole(&store, &other).await, content(10), "another topic lost a file");
    put(&store, new_file("e", 5), &content(1000)).await.expect("what was removed makes room");
    let store = engine.restart(store).await;
    assert_eq!(store.list().await.expect("listed").len(), 2);
}
