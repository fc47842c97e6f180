//! Files of `[http]` that any user of the machine may read or change.
//!
//! A warning, not an error: where nobody else can reach the file, as in a container, its mode does no harm. Only the bits for
//! others count. The group's are needed: a file of root that the service's group may read (0640), a Kubernetes secret (0440), a
//! systemd credential (0400, or 0440 where an ACL's mask stands in the group's place).

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::HttpConfig;

const READ: u32 = 0o004;
const WRITE: u32 = 0o002;

impl HttpConfig {
    /// One warning for each such file. Of a symbolic link, the file behind it counts. A file that cannot be looked at has none: reading
    /// it gives the reason.
    pub(crate) fn exposed_files(&self) -> Vec<String> {
        let Self { names: _, token_file, tls, external_url: _ } = self;
        let token = token_file.iter().map(|file| ("http.token-file", file, READ | WRITE));
        let tls = tls.iter().flat_map(|tls| {
            [
                // Every client is shown it.
                ("http.tls-certificate", &tls.certificate, WRITE),
                ("http.tls-key", &tls.key, READ | WRITE),
            ]
        });
        token.chain(tls).filter_map(|(key, file, secret)| exposed(key, file, secret)).collect()
    }
}

fn exposed(key: &str, file: &Path, secret: u32) -> Option<String> {
    let mode = std::fs::metadata(file).ok()?.permissions().mode() & 0o7777;
    let may = match mode & secret {
        0 => return None,
        READ => "read",
        WRITE => "change",
        _ => "read and change",
    };
    let remove = match mode & secret {
        READ => "o-r",
        WRITE => "o-w",
        _ => "o-rw",
    };
    Some(format!(
        "{key} {file}: every user of this machine may {may} it (mode {mode:04o}); run `chmod {remove} {file}`",
        file = file.display()
    ))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::path::PathBuf;

    use super::*;
    use crate::config::TlsFiles;

    fn file(directory: &Path, name: &str, mode: u32) -> PathBuf {
        let file = directory.join(name);
        std::fs::write(&file, "").unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        file
    }

    fn token(file: PathBuf) -> HttpConfig {
        HttpConfig { token_file: Some(file), ..HttpConfig::default() }
    }

    #[test]
    fn only_the_bits_for_others_count() {
        let directory = tempfile::tempdir().unwrap();
        for (mode, notice) in [
            (0o400, None),
            (0o600, None),
            (0o440, None),
            (0o640, None),
            (0o660, None),
            (0o641, None),
            (0o644, Some(("read it (mode 0644)", "chmod o-r /"))),
            (0o444, Some(("read it (mode 0444)", "chmod o-r /"))),
            (0o602, Some(("change it (mode 0602)", "chmod o-w /"))),
            (0o666, Some(("read and change it (mode 0666)", "chmod o-rw /"))),
        ] {
            let warnings = token(file(directory.path(), &format!("{mode:o}"), mode)).exposed_files();
            let Some((may, remedy)) = notice else {
                assert_eq!(warnings, [""; 0], "{mode:o}");
                continue;
            };
            assert_eq!(warnings.len(), 1, "{mode:o}");
            assert!(warnings[0].starts_with("http.token-file /"), "{warnings:?}");
            assert!(warnings[0].contains(may) && warnings[0].contains(remedy), "{warnings:?}");
        }
    }

    /// A Kubernetes secret is a link to a link to a file; links themselves have mode 0777.
    #[test]
    fn the_file_behind_a_link_counts() {
        let directory = tempfile::tempdir().unwrap();
        for (mode, count) in [(0o440, 0), (0o444, 1)] {
            let data = directory.path().join(format!("..data{mode:o}"));
            std::fs::create_dir(&data).unwrap();
            file(&data, "token", mode);
            let link = directory.path().join(format!("token{mode:o}"));
            std::os::unix::fs::symlink(data.join("token"), &link).unwrap();
            assert_eq!(token(link).exposed_files().len(), count, "{mode:o}");
        }
    }

    #[test]
    fn a_certificate_is_no_secret_but_its_key_is() {
        let directory = tempfile::tempdir().unwrap();
        let tls = |certificate, key| {
            let tls = TlsFiles {
                certificate: file(directory.path(), "certificate", certificate),
                key: file(directory.path(), "key", key),
            };
            HttpConfig { tls: Some(tls), ..HttpConfig::default() }.exposed_files()
        };
        assert_eq!(tls(0o644, 0o640), [""; 0]);
        let warnings = tls(0o646, 0o644);
        assert_eq!(warnings.len(), 2);
        assert!(warnings[0].starts_with("http.tls-certificate") && warnings[0].contains("may change"));
        assert!(warnings[1].starts_with("http.tls-key") && warnings[1].contains("may read it"));
    }

    #[test]
    fn what_cannot_be_looked_at_has_no_warning() {
        assert_eq!(token("/nonexistent/token".into()).exposed_files(), [""; 0]);
        assert_eq!(HttpConfig::default().exposed_files(), [""; 0]);
    }
}
