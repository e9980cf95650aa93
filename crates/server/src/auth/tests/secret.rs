//! The generated secret.

use std::os::unix::fs::PermissionsExt;

use super::super::secret::SECRET_FILE_NAME;
use super::super::*;
use super::captured_logs::CapturedLogs;
use super::fixtures::{alice_claims, hs256, test_clock};

async fn open(data: &Path) -> Result<Authenticator, AuthLoadError> {
    let config = AuthConfig::new(&AuthSettings::default()).unwrap();
    Authenticator::load(&config, data, Arc::new(test_clock())).await
}

#[tokio::test]
async fn the_generated_secret_is_kept_and_readable_by_its_owner_only() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("not/yet/there");
    let first = open(&data).await.unwrap();
    let mode = data
        .join(SECRET_FILE_NAME)
        .metadata()
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o600);
    let names: Vec<_> = std::fs::read_dir(&data)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, [SECRET_FILE_NAME]);
    let secret = std::fs::read_to_string(data.join(SECRET_FILE_NAME)).unwrap();
    let token = hs256(secret.trim(), &alice_claims());
    assert!(first.verify(&token).await.is_ok());
    assert!(open(&data).await.unwrap().verify(&token).await.is_ok());
}

#[tokio::test]
async fn two_data_folders_have_different_secrets() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let mut secrets = Vec::new();
    for folder in &folders {
        open(folder.path()).await.unwrap();
        secrets.push(std::fs::read(folder.path().join(SECRET_FILE_NAME)).unwrap());
    }
    assert_ne!(secrets[0], secrets[1]);
}

#[tokio::test]
async fn many_that_start_at_once_agree_on_one_secret() {
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let barrier = std::sync::Barrier::new(8);
        let secrets: Vec<SharedSecret> = std::thread::scope(|scope| {
            let start = || {
                barrier.wait();
                secret::load_or_generate(folder.path()).unwrap()
            };
            let all: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(secrets.windows(2).all(|pair| pair[0] == pair[1]));
    }
}

#[tokio::test]
async fn a_damaged_secret_file_is_reported_and_not_replaced() {
    for text in ["", "short", &"z".repeat(64)] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(SECRET_FILE_NAME);
        std::fs::write(&file, text).unwrap();
        let error = open(folder.path()).await.unwrap_err().to_string();
        assert!(
            error.contains("does not contain a generated secret"),
            "{error}"
        );
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    }
}

#[tokio::test]
async fn leftover_temporary_secret_files_are_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let draft = folder
        .path()
        .join(format!("{SECRET_FILE_NAME}.0123456789abcdef"));
    std::fs::write(&draft, "0123").unwrap();
    open(folder.path()).await.unwrap();
    assert_eq!(std::fs::read_to_string(&draft).unwrap(), "0123");
}

#[tokio::test]
async fn a_link_is_followed_to_a_secret_but_nothing_is_written_through_it() {
    let folder = tempfile::tempdir().unwrap();
    let (data, real) = (folder.path().join("data"), folder.path().join("real"));
    std::fs::create_dir(&data).unwrap();
    std::os::unix::fs::symlink(&real, data.join(SECRET_FILE_NAME)).unwrap();
    let error = open(&data).await.unwrap_err();
    assert!(
        matches!(error, AuthLoadError::File { action: "read", .. }),
        "{error:?}"
    );
    assert!(!real.exists());
    std::fs::write(&real, "ab".repeat(32)).unwrap();
    let token = hs256(&"ab".repeat(32), &alice_claims());
    assert!(open(&data).await.unwrap().verify(&token).await.is_ok());
}

#[tokio::test]
async fn an_unwritable_folder_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = open(&file.join("data")).await.unwrap_err();
    assert!(matches!(error, AuthLoadError::File { .. }), "{error:?}");
}

#[tokio::test]
async fn a_readable_secret_file_causes_a_warning_without_the_secret() {
    let logs = CapturedLogs::collect();
    let folder = tempfile::tempdir().unwrap();
    open(folder.path()).await.unwrap();
    assert_eq!(logs.text(), "");
    let file = folder.path().join(SECRET_FILE_NAME);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    open(folder.path()).await.unwrap();
    let secret = std::fs::read_to_string(&file).unwrap();
    let text = logs.text();
    assert!(
        text.contains("chmod 600") && !text.contains(secret.trim()),
        "{text}"
    );
}
