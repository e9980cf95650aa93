//! `grpc.health.v1.Health`: whether this node is ready to serve calls.
//!
//! Invariants:
//! 1. Each `Check` runs the readiness checks.
//! 2. `Watch` reports a change within about [`HEALTH_CHECK_INTERVAL`]. All watchers share one check, so their number
//!    does not increase the load of the store.

use std::pin::Pin;
use std::time::Duration;

use futures_util::{Stream, stream};
use parlor_chat::api::error_code::ErrorCode;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse, health_server};

use super::PARLOR_SERVICES;
use crate::api_error::ApiError;
use crate::app_state::AppState;

/// Interval of the readiness check for watchers.
const HEALTH_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Health service of this node.
pub(super) struct HealthService {
    app: AppState,
    latest: watch::Receiver<ServingStatus>,
}

type HealthStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

impl HealthService {
    /// Creates the service, and the task that updates its status until the shutdown.
    pub(super) fn new(app: AppState) -> (Self, impl Future<Output = ()> + Send) {
        let (sender, latest) = watch::channel(ServingStatus::NotServing);
        let update_status = {
            let app = app.clone();
            async move {
                let mut tick = interval(HEALTH_CHECK_INTERVAL);
                tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
                while !app.is_shutting_down() {
                    tokio::select! {
                        () = app.wait_for_shutdown() => {}
                        _ = tick.tick() => {}
                    }
                    let now = serving_status(&app).await;
                    sender.send_if_modified(|latest| std::mem::replace(latest, now) != now);
                }
            }
        };
        (Self { app, latest }, update_status)
    }
}

async fn serving_status(app: &AppState) -> ServingStatus {
    if app.readiness().await.is_ready() {
        ServingStatus::Serving
    } else {
        ServingStatus::NotServing
    }
}

fn is_known(service: &str) -> bool {
    service.is_empty() || PARLOR_SERVICES.contains(&service)
}

fn health_response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse {
        status: status.into(),
    }
}

#[tonic::async_trait]
impl health_server::Health for HealthService {
    type WatchStream = HealthStream;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let service = &request.get_ref().service;
        if !is_known(service) {
            let detail = format!("unknown service {service:?}");
            return Err(ApiError::new(ErrorCode::NotFound, detail).into());
        }
        Ok(Response::new(health_response(
            serving_status(&self.app).await,
        )))
    }

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthStream>, Status> {
        let watcher = HealthWatcher {
            known: is_known(&request.get_ref().service),
            app: self.app.clone(),
            latest: self.latest.clone(),
            last: None,
        };
        let responses = stream::try_unfold(watcher, |mut watcher| async move {
            let next = watcher.next().await?;
            Ok(Some((health_response(next), watcher)))
        });
        Ok(Response::new(Box::pin(responses)))
    }
}

/// State of one watcher.
struct HealthWatcher {
    known: bool,
    app: AppState,
    latest: watch::Receiver<ServingStatus>,
    last: Option<ServingStatus>,
}

impl HealthWatcher {
    /// Waits for the next status that differs from the last one. At shutdown: `NOT_SERVING`, then an error that ends
    /// the stream.
    async fn next(&mut self) -> Result<ServingStatus, Status> {
        loop {
            let is_stopping = self.app.is_shutting_down();
            let now = match *self.latest.borrow_and_update() {
                _ if !self.known => ServingStatus::ServiceUnknown,
                _ if is_stopping => ServingStatus::NotServing,
                status => status,
            };
            if self.last.replace(now) != Some(now) {
                return Ok(now);
            }
            if is_stopping {
                return Err(super::shutdown_error().into());
            }
            tokio::select! {
                () = self.app.wait_for_shutdown() => {}
                _ = self.latest.changed() => {}
            }
        }
    }
}
