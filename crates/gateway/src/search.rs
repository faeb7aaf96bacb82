//! Searching for participants: how many searches run at once, and what a search that fails is to the one who asked.

use std::sync::Arc;

use salon_log::search::SearchPage;
use salon_log::{SearchError, SearchRequest, TopicSearch};
use salon_protocol::{Code, ParticipantId, Refusal};
use tokio::sync::Semaphore;

use crate::gateway::KeyedCounter;

/// Searches that run or wait for their turn at once, and those of one participant. Each takes up to seconds.
const MAX_SEARCHES: usize = 32;
const MAX_SEARCHES_OF_ONE: usize = 4;

/// See the module.
pub(crate) struct Searches {
    search: Arc<dyn TopicSearch>,
    running: Semaphore,
    by_participant: Arc<KeyedCounter<ParticipantId>>,
}

impl Searches {
    pub(crate) fn new(search: Arc<dyn TopicSearch>) -> Self {
        let by_participant = KeyedCounter::new(MAX_SEARCHES_OF_ONE);
        Self { search, running: Semaphore::new(MAX_SEARCHES), by_participant }
    }

    /// One page of hits for a participant, who must be allowed to read the topics asked for.
    pub(crate) async fn run(&self, who: &ParticipantId, request: SearchRequest) -> Result<SearchPage, Refusal> {
        let busy = |message: String| Refusal::new(Code::RateLimited, message);
        let own = || busy(format!("{MAX_SEARCHES_OF_ONE} of your searches are under way; wait for one of them"));
        let _counted = self.by_participant.enter(who, "participant").map_err(|_| own())?;
        let others = || busy(format!("{MAX_SEARCHES} searches are under way; try again in a moment"));
        let _running = self.running.try_acquire().map_err(|_| others())?;
        self.search.search(request).await.map_err(|error| match error {
            SearchError::Cursor => Refusal::new(Code::InvalidParameters, error.to_string()),
            SearchError::TooSlow => Refusal::new(Code::Timeout, error.to_string()),
            SearchError::Index(_) => {
                Refusal::new(Code::Closing, "the search index cannot be used now; try again later")
            }
            SearchError::Read(error) => salon_rooms::unreadable(&error),
        })
    }
}
