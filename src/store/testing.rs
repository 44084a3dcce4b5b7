//! Rows for tests of rooms above that need a turn in a database: SQL stands in this room alone (ARC-6).

use serde_json::Value;
use tokio::runtime::Handle;
use tokio_postgres::Client;

use super::embedded::testing::{TestDatabase, TestServer};
use super::{Database, PoolLimits};
use crate::domain::{ProcessId, TurnId};

/// A contact with a running turn, and open actions behind an agent's row of the same id.
pub struct ActingTurn {
    /// Its database.
    pub database: Database,
    /// The turn, the conversation and the agent's row.
    pub turn: TurnId,
    /// Whose they are.
    pub process: ProcessId,
    pub(super) client: Client,
    _server: TestDatabase,
}

impl ActingTurn {
    /// The turn of this contact.
    pub async fn of(contact: &str) -> Self {
        let server = TestServer::database().unwrap();
        let client = server.connect().await.unwrap();
        let address = server.config().clone().into();
        let database = Database::new(address, Handle::current(), PoolLimits::default()).unwrap();
        let (turn, process) = (TurnId::fresh(), ProcessId::fresh());
        let sql = format!(
            "insert into conversations (id, tenant_id, subscriber_id, channel)
               values ('{turn}', 't', '{contact}', 'whatsapp');
             insert into rs_owed (turn_id, conversation_id, tenant_id, process_id, status, binding, user_turn_ids,
                                  received_at)
               values ('{turn}', '{turn}', 't', '{process}', 'running', 'bound', '{{}}', now());
             insert into rs_actions (turn_id, conversation_id, tenant_id, process_id, actions)
               values ('{turn}', '{turn}', 't', '{process}', '[]')"
        );
        client.batch_execute(&sql).await.unwrap();
        Self { database, turn, process, client, _server: server }
    }

    /// Number, outcome and entry of every attempt.
    pub async fn attempts(&self) -> Vec<(i32, Option<String>, Value)> {
        let sql = "select action, outcome, entry from rs_attempts order by action";
        let rows = self.client.query(sql, &[]).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
    }

    /// What the turn has attempted, as entries of the record.
    pub async fn record(&self) -> Vec<Value> {
        super::follow_ons::attempted(&self.database, self.turn).await.unwrap()
    }

    /// The turn's own message, and a turn of the contact that has settled since.
    pub async fn settle_a_later_turn(&self) {
        let sql = format!(
            "insert into turns (id, conversation_id, role, text, bound) values ('{0}', '{0}', 'user', 'own', true);
             update rs_owed set user_turn_ids = '{{{0}}}';
             insert into turns (conversation_id, role, text, outcome, bound)
               values ('{0}', 'agent', 'later', 'answered_inline', true)",
            self.turn
        );
        self.client.batch_execute(&sql).await.unwrap();
    }

    /// Another process takes the running turn over.
    pub async fn give_turn_away(&self) {
        self.client.execute("update rs_owed set process_id = gen_random_uuid()", &[]).await.unwrap();
    }

    /// Follow-ups that are planned.
    pub async fn nudges(&self) -> i64 {
        self.client.query_one("select count(*) from nudges", &[]).await.unwrap().get(0)
    }

    /// Another process takes the open actions.
    pub async fn give_away(&self) {
        self.client.execute("update rs_actions set process_id = gen_random_uuid()", &[]).await.unwrap();
    }

    /// The database refuses the attempt with this number until told otherwise; -1: none.
    pub async fn refuse_attempt(&self, number: i32) {
        let sql = format!(
            "create or replace function refuse_attempt() returns trigger language plpgsql as
               'begin if new.action = {number} then raise exception ''away''; end if; return new; end';
             create or replace trigger away before insert on rs_attempts
               for each row execute function refuse_attempt()"
        );
        self.client.batch_execute(&sql).await.unwrap();
    }

    /// An attempt of the open actions that was written down and not finished.
    pub async fn write_attempt(&self, number: i32) {
        let sql = "insert into rs_attempts (turn_id, action, conversation_id, process_id, entry)
                   select turn_id, $1, conversation_id, process_id, '{}' from rs_actions";
        self.client.execute(sql, &[&number]).await.unwrap();
    }

    /// Another turn of the contact writes this field at this moment.
    pub async fn write_under_way(&self, id: &str, value: &str) {
        let sql = "insert into rs_attempts (turn_id, action, conversation_id, process_id, entry)
                   select gen_random_uuid(), 0, conversation_id, process_id,
                          jsonb_build_object('tool', 'set_field', 'id', $1::text, 'value', $2::text)
                   from rs_actions";
        self.client.execute(sql, &[&id, &value]).await.unwrap();
    }

    /// Every write that is under way ends, accepted.
    pub async fn end_writes(&self) {
        let sql =
            "update rs_attempts set finished_at = now(), outcome = 'performed' where finished_at is null";
        self.client.execute(sql, &[]).await.unwrap();
    }
}
